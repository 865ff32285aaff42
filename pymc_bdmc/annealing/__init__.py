"""The annealing loop, and running many chains of it in parallel."""

from pymc_bdmc.annealing.driver import anneal
from pymc_bdmc.annealing.engine import AnnealTask, PilotTask, StepEngine
from pymc_bdmc.annealing.parallel import WorkerPool

__all__ = ["AnnealTask", "PilotTask", "StepEngine", "WorkerPool", "anneal"]
