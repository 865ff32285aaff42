"""Checks of a result: a reading in, findings out, each with its sentences in plain sight."""
