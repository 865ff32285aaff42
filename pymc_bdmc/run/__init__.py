"""Annealing runs: the loops, their records, and the workers that share them."""
