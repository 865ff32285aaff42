"""Compiled loops of lattice models and machines, and simulated tempering."""
