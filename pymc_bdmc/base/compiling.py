"""`njit` with a cache on disk that belongs to the sources, and functions called by address."""

import ast
import functools
import hashlib
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import cpu_target
from numba.experimental import function_type  # noqa: F401  lets numba type what is `CalledByAddress`

from pymc_bdmc.base.interrupts import unbroken

__all__ = ["DENSITY", "CalledByAddress", "declare", "is_missing", "load_numba", "njit"]

_log = logging.getLogger("pymc.bdmc")

_ROOT = Path(__file__).parent.parent
"""Of the package, whose files may change."""

_VECTOR = types.float64[::1]
DENSITY = types.UniTuple(types.float64, 2)(_VECTOR, _VECTOR, _VECTOR, _VECTOR)
"""Signature of every compiled density: what calls one is compiled once for all models."""


def njit(
    *, cache: bool = False, allocates: bool = True, title: str | None = None, **options
) -> Callable:
    """`numba.njit`, whose cache on disk is never stale and never an obstacle.

    Numba itself looks at the file of the function only, and keeps what was compiled into it from
    other files.

    Parameters
    ----------
    cache : bool, default False
        Whether to keep compiled code on disk, where numba would (see ``NUMBA_CACHE_DIR``), until
        one of its sources changes. If no such place is writable, that is logged, and every process
        compiles anew.
    allocates : bool, default True
        Whether it makes arrays or returns any. If not, numba need not count the references to those
        that it is given: that takes as long as the arithmetic of a small model.
    title : str, optional
        Of a function that takes seconds to compile: what is then logged, so that nobody wonders.
    **options
        Passed to `numba.njit`.

    Examples
    --------
    >>> from pymc_bdmc.base.compiling import njit
    >>> @njit(nogil=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(1.5)
    3.0
    """

    def decorate(function):
        dispatcher = numba.njit(_nrt=allocates, **options)(function)
        if cache:
            try:
                dispatcher._cache = _Cache(function, title)  # what `enable_caching` of numba's does
            except (RuntimeError, OSError) as error:
                _say_that_nothing_is_kept(str(_ROOT))
                _log.debug(f"{function.__name__}: {error}")
        return dispatcher

    return decorate


class CalledByAddress(types.WrapperAddressProtocol):
    """A compiled function that others take as an argument and call by its address.

    What numba calls by name it compiles anew into every caller, and again into those of the caller.
    In this way a large function is compiled once.

    Parameters
    ----------
    function : dispatcher
        By `njit`. It must not raise: no exception passes through the call.
    signature : numba signature
        The only one it is called with.

    Examples
    --------
    >>> from numba import float64
    >>> from pymc_bdmc.base.compiling import CalledByAddress, njit
    >>> @njit()
    ... def double(x):
    ...     return 2 * x
    >>> @njit()
    ... def twice(function, x):
    ...     return function(function(x))
    >>> twice(CalledByAddress(double, float64(float64)), 1.5)
    6.0
    """

    def __init__(self, function: Any, signature: Any):
        self._function, self._signature = function, signature

    def signature(self):
        """What numba takes for its type."""
        return self._signature

    def __wrapper_address__(self) -> int:
        """Where numba finds it; compiled when first asked for."""
        return self._address

    @functools.cached_property
    def _address(self) -> int:
        self._function.compile(self._signature.args)
        found = self._function.get_compile_result(self._signature)
        if found.signature.return_type != self._signature.return_type:
            raise TypeError(f"{self._function}: returns {found.signature.return_type}.")
        return found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)


def declare(cls: Any, kind: Any) -> None:
    """Tell numba the type of all objects of a class.

    Otherwise it infers that from every field at every call, and takes longer than many a call.
    """
    cls._numba_type_ = kind


def is_missing(dispatcher: Any, argument_types: tuple) -> bool:
    """Whether a function of `njit` that keeps its code has none for these types, here or on disk.

    Says so in the log if it has a title, as its compilation would.
    """
    return (
        isinstance(dispatcher._cache, _Cache)
        and argument_types not in dispatcher.overloads
        and dispatcher._cache.load_overload(argument_types, dispatcher.targetctx) is None
    )


@functools.cache
def load_numba() -> None:
    """Have numba load all that it knows of types, whole: it loads every part once only.

    Ctrl-C in the middle, at the first compilation of a process, would leave it unable to compile.

    Examples
    --------
    >>> from pymc_bdmc.base.compiling import load_numba
    >>> load_numba()
    """
    with unbroken():
        import pytensor.link.numba.dispatch  # noqa: F401  registers the types of its own

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


class _Cache(FunctionCache):
    """Compiled code that is good while its sources stay the same."""

    def __init__(self, function: Callable, title: str | None = None):
        super().__init__(function)
        self._title = title
        self._cache_file = IndexDataCacheFile(
            self.cache_path, self._impl.filename_base, _stamp(Path(inspect.getfile(function)))
        )

    def load_overload(self, sig, target_context):
        """As numba's; a file that cannot be read counts as missing. What is missing is logged."""
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # unpickling half a file can raise anything
            _log.info(f"A compiled function in {self.cache_path} is made anew: {error!r}")
            self._attempt(self.flush)
        if found is None and self._title:
            _log.info(f"Compiling {self._title}; kept for later calls and processes")
        return found

    def save_overload(self, sig, data):
        """As numba's; what cannot be written is compiled again by the next process."""
        self._attempt(super().save_overload, sig, data)

    def _attempt(self, write: Callable, *args) -> None:
        try:
            write(*args)
        except OSError:
            _say_that_nothing_is_kept(self.cache_path)


@functools.cache
def _say_that_nothing_is_kept(place: str) -> None:
    """Once."""
    _log.warning(
        f"Compiled code cannot be kept in {place}: every process compiles anew, for a minute or "
        "so. Set the environment variable NUMBA_CACHE_DIR to a directory that can be written to."
    )


@functools.cache
def _stamp(path: Path) -> str:
    """Hash of a source file of the package and of those that it imports, directly or not."""
    digest, seen, ahead = hashlib.sha256(), set(), [path]
    while ahead:
        if (path := ahead.pop()) not in seen:
            seen.add(path)
            text = path.read_bytes()
            digest.update(text)
            ahead += _imports(path)
    return digest.hexdigest()


@functools.cache
def _imports(path: Path) -> list[Path]:
    """Files of the package that a file imports from."""
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ImportFrom):
            continue
        first, *rest = (node.module or "").split(".")
        if first == _ROOT.name:
            place = _ROOT.joinpath(*rest)
            within = [place / f"{alias.name}.py" for alias in node.names]
            found += [place.with_suffix(".py"), place / "__init__.py", *within]
    return [path for path in found if path.exists()]
