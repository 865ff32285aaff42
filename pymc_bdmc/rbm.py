"""Restricted Boltzmann machines: annealed, trained and scored, exact where small."""

from pymc_bdmc.testbeds.rbm.annealing import anneal
from pymc_bdmc.testbeds.rbm.machine import RBM
from pymc_bdmc.testbeds.rbm.training import (
    HeldOut,
    Training,
    binary_digits,
    held_out_log_likelihood,
    train,
)

__all__ = [
    "RBM",
    "HeldOut",
    "Training",
    "anneal",
    "binary_digits",
    "held_out_log_likelihood",
    "train",
]
