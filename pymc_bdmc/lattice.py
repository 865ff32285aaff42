"""Ising and Potts models: compiled samplers with exact answers."""

from pymc_bdmc.base.names import public_names as _public_names
from pymc_bdmc.testbeds.lattice.annealing import anneal as anneal
from pymc_bdmc.testbeds.lattice.exact import density_of_states as density_of_states
from pymc_bdmc.testbeds.lattice.exact import kaufman_log_z as kaufman_log_z
from pymc_bdmc.testbeds.lattice.exact import transfer_matrix_log_z as transfer_matrix_log_z
from pymc_bdmc.testbeds.lattice.random_cluster import perfect_samples as perfect_samples
from pymc_bdmc.testbeds.lattice.systems import Ising as Ising
from pymc_bdmc.testbeds.lattice.systems import Lattice as Lattice
from pymc_bdmc.testbeds.lattice.systems import Potts as Potts

__all__ = _public_names(globals())
