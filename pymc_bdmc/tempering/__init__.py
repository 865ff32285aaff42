"""Simulated tempering: the sampler, and the systems it works on."""
