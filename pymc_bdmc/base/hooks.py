"""Run functions when another package is imported."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, act: Callable[[ModuleType], object]) -> None:
    """Call ``act`` on a module, at once if it is imported already, or else after its import.

    Examples
    --------
    >>> from pymc_bdmc.base.hooks import when_imported
    >>> when_imported("sys", lambda module: print(module.__name__))
    sys
    """
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Hook(name, act))


class _Hook:
    """Finder of one module, which delegates to the later finders in `sys.meta_path`."""

    def __init__(self, name: str, act: Callable[[ModuleType], object]):
        self._name, self._act = name, act

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the later finders, with a loader that finally calls ``act``."""
        if name != self._name or self not in sys.meta_path:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(name, path, target) for finder in behind)
        spec = next((each for each in found if each is not None), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:  # looking for a module is not importing it
                sys.meta_path.remove(self)
                self._act(module)

        spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
