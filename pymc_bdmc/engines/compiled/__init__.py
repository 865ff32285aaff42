"""The compiled engine: whole chains inside numba, tuned by a pilot population."""
