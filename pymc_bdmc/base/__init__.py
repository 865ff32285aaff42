"""Shared basis of all rooms: schedules, random streams, types, argument checks, compilation."""
