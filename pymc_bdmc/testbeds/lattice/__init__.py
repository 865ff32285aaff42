"""Ising and Potts models: energies, exact answers, compiled chains."""
