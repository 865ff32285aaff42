"""Finite models with compiled samplers and exact answers: Ising, Potts, Boltzmann machines."""

from pymc_bdmc.lattice.annealing import anneal
from pymc_bdmc.lattice.exact import density_of_states, kaufman_log_z, transfer_matrix_log_z
from pymc_bdmc.lattice.random_cluster import perfect_samples
from pymc_bdmc.lattice.rbm import RBM
from pymc_bdmc.lattice.rbm_annealing import anneal_rbm
from pymc_bdmc.lattice.rbm_training import (
    HeldOut,
    Training,
    binary_digits,
    held_out_log_likelihood,
    train,
)
from pymc_bdmc.lattice.systems import Ising, Lattice, Potts
from pymc_bdmc.lattice.tempering import TemperedLattice

__all__ = [
    "RBM",
    "HeldOut",
    "Ising",
    "Lattice",
    "Potts",
    "TemperedLattice",
    "Training",
    "anneal",
    "anneal_rbm",
    "binary_digits",
    "density_of_states",
    "held_out_log_likelihood",
    "kaufman_log_z",
    "perfect_samples",
    "train",
    "transfer_matrix_log_z",
]

anneal.register(RBM, anneal_rbm)
