"""Fits of references to posteriors, by which runs need little annealing or none."""
