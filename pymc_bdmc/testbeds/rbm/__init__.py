"""Restricted Boltzmann machines: compiled chains, training, held-out scores."""
