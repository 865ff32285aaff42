"""Compile by numba, with a disk cache that depends on the sources, and call by address."""

import functools
import hashlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import cpu_target
from numba.experimental import function_type  # noqa: F401  lets numba type what is `CalledByAddress`

from pymc_bdmc.base import logger
from pymc_bdmc.base.interrupts import unbroken

_log = logger(__name__)

_ROOT = Path(__file__).parent.parent  # of the package

# Package, rest of the module, and names in parentheses or on the line. Parsing by `ast` took 0.3 s
# of the 1.9 s in which the package is imported.
_IMPORT = re.compile(r"^ *from (\w+)([.\w]*) import (?:\(([^)]*)|(.*))", re.MULTILINE)

DENSITY = types.UniTuple(types.float64, 2)(*[types.float64[::1]] * 5)
"""Signature of every compiled density, so that its callers are compiled once for all models: of θ,
data, an interval of β, and two gradients that it writes; it returns log p and ℓ."""


def njit(
    *, cache: bool = False, allocates: bool = True, title: str | None = None, **options
) -> Callable:
    """Compile by `numba.njit`, with a disk cache that is never stale and may be unwritable.

    Numba itself checks only the file of the function, and misses changes of functions from other
    files that were compiled into it. With ``cache``, compiled code is valid until one of its
    sources changes; ``title`` is logged if it has to be compiled. If ``allocates`` is false, numba
    does not count references to arguments, which would take as long as the arithmetic of a small
    model; such a function must not make or return arrays. A division by zero gives NaN or infinity,
    as in NumPy: numba's default, an exception, passes through no call by address.
    """

    def decorate(function):
        dispatcher = numba.njit(_nrt=allocates, error_model="numpy", **options)(function)
        if cache:
            try:
                dispatcher._cache = _Cache(function, title)  # as numba's `enable_caching` does
            except (RuntimeError, OSError) as error:
                _say_that_nothing_is_kept(str(_ROOT))
                _log.debug(f"{function.__name__}: {error}")
        return dispatcher

    return decorate


class CalledByAddress(types.WrapperAddressProtocol):
    """Compiled function that others take as an argument and call by its address.

    Numba compiles a function that is called by name again into every caller. A function called by
    address is compiled once. It must not raise, since no exception passes through the call.
    """

    def __init__(self, function: Any, signature: Any):
        self._function, self._signature = function, signature

    def signature(self):
        """Return its type for numba."""
        return self._signature

    def __wrapper_address__(self) -> int:
        """Return its address for numba, compiled at the first use."""
        return self._address

    @functools.cached_property
    def _address(self) -> int:
        self._function.compile(self._signature.args)
        found = self._function.get_compile_result(self._signature)
        if found.signature.return_type != self._signature.return_type:
            raise TypeError(f"{self._function}: returns {found.signature.return_type}.")
        return found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)


def quickest[T](title: str, *forms: Callable[[], T]) -> T:
    """Return the first form that can be made; all but the last are shortcuts, which may fail."""
    *shortcuts, plain = forms
    for make in shortcuts:
        try:
            return make()
        except Exception as error:
            _log.debug(f"No shortcut for {title}: {type(error).__name__}: {in_a_line(error)}")
    return plain()


def in_a_line(error: Exception) -> str:
    """Return the first line of an error, without numba's internal locations, or else its type."""
    lines = [line for line in str(error).splitlines() if not line.startswith("Failed in")]
    return lines[0] if lines else type(error).__name__


def declare(cls: Any, kind: Any) -> None:
    """Set the numba type of a class, which numba otherwise infers from all fields at every call."""
    cls._numba_type_ = kind


@functools.cache
def load_numba() -> None:
    """Load all of numba's type definitions."""
    with unbroken():  # numba loads each part only once, and could not compile without it
        import pytensor.link.numba.dispatch  # noqa: F401  registers its own types

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


class _Cache(FunctionCache):
    def __init__(self, function: Callable, title: str | None = None):
        super().__init__(function)
        self._title = title
        self._cache_file = IndexDataCacheFile(
            self.cache_path, self._impl.filename_base, stamp(Path(inspect.getfile(function)))
        )

    def load_overload(self, sig, target_context):
        """Load like numba, but treat an unreadable file as missing, and log missing functions."""
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # unpickling a damaged file can raise anything
            _log.info(f"A compiled function in {self.cache_path} is compiled again: {error!r}")
            self._attempt(self.flush)
        if found is None and self._title:
            _log.info(f"Compiling {self._title}; kept for later calls and processes")
        return found

    def save_overload(self, sig, data):
        """Save like numba, but ignore write errors, so that the next process compiles again."""
        self._attempt(super().save_overload, sig, data)

    def _attempt(self, write: Callable, *args) -> None:
        try:
            write(*args)
        except OSError:
            _say_that_nothing_is_kept(self.cache_path)


@functools.cache
def _say_that_nothing_is_kept(place: str) -> None:
    _log.warning(
        f"Compiled code cannot be kept in {place}: every process compiles again, for about a "
        "minute. Set the environment variable NUMBA_CACHE_DIR to a writable directory."
    )


@functools.cache
def stamp(path: Path) -> str:
    """Return a hash of a source file and of all that it imports of its package and of this one."""
    digest, seen, waiting = hashlib.sha256(), set(), [path]
    while waiting:
        if (path := waiting.pop()) not in seen:
            seen.add(path)
            text = path.read_bytes()
            digest.update(text)
            waiting += _imports(path)
    return digest.hexdigest()


@functools.cache
def _imports(path: Path) -> list[Path]:
    """Return the files of its package and of this one that a file imports."""
    own = path.parent
    while (own.parent / "__init__.py").exists():
        own = own.parent
    packages, found = {folder.name: folder for folder in (own, _ROOT)}, []
    for first, rest, several, one in _IMPORT.findall(path.read_text("utf-8")):
        if first in packages:
            place = packages[first].joinpath(*rest.split("."))
            within = [place / f"{name}.py" for name in re.findall(r"\w+", several or one)]
            found += [place.with_suffix(".py"), place / "__init__.py", *within]
    return [path for path in found if path.exists()]
