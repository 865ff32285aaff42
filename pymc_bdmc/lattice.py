"""Ising and Potts models: compiled samplers with exact answers."""

from pymc_bdmc.testbeds.lattice.annealing import anneal
from pymc_bdmc.testbeds.lattice.exact import density_of_states, kaufman_log_z, transfer_matrix_log_z
from pymc_bdmc.testbeds.lattice.random_cluster import perfect_samples
from pymc_bdmc.testbeds.lattice.systems import Ising, Lattice, Potts

__all__ = [
    "Ising",
    "Lattice",
    "Potts",
    "anneal",
    "density_of_states",
    "kaufman_log_z",
    "perfect_samples",
    "transfer_matrix_log_z",
]
