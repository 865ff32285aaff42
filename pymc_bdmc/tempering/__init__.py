"""Simulated tempering of PyMC models and other systems."""
