"""Shared basis of all rooms: schedules, random streams, types, argument checks, compilation."""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, ["schedules"])
