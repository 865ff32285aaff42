"""Ising and Potts models: compiled samplers with exact answers."""

from pymc_bdmc.base import public_names as _public_names
from pymc_bdmc.testbeds.lattice import Ising as Ising
from pymc_bdmc.testbeds.lattice import Lattice as Lattice
from pymc_bdmc.testbeds.lattice import Potts as Potts
from pymc_bdmc.testbeds.lattice import density_of_states as density_of_states
from pymc_bdmc.testbeds.lattice import kaufman_log_z as kaufman_log_z
from pymc_bdmc.testbeds.lattice import transfer_matrix_log_z as transfer_matrix_log_z
from pymc_bdmc.testbeds.lattice_annealing import anneal as anneal
from pymc_bdmc.testbeds.random_cluster import perfect_samples as perfect_samples

__all__ = _public_names(globals())
