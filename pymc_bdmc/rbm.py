"""Restricted Boltzmann machines: annealed, trained and scored, exact where small."""

from pymc_bdmc.base import public_names as _public_names
from pymc_bdmc.testbeds.rbm import RBM as RBM
from pymc_bdmc.testbeds.rbm import anneal as anneal
from pymc_bdmc.testbeds.rbm_training import HeldOut as HeldOut
from pymc_bdmc.testbeds.rbm_training import Training as Training
from pymc_bdmc.testbeds.rbm_training import binary_digits as binary_digits
from pymc_bdmc.testbeds.rbm_training import held_out_log_likelihood as held_out_log_likelihood
from pymc_bdmc.testbeds.rbm_training import train as train

__all__ = _public_names(globals())
