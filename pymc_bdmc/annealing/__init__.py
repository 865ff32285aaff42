"""The annealing loop in its two engines, and running many chains of it in parallel."""

from pymc_bdmc.annealing.compiled.engine import CompiledEngine
from pymc_bdmc.annealing.compiled.pilot import PathTuning
from pymc_bdmc.annealing.driver import anneal
from pymc_bdmc.annealing.engines import make_engine
from pymc_bdmc.annealing.pools import ExecutorPool, ThreadPool, WorkerPool
from pymc_bdmc.annealing.record import Recorder
from pymc_bdmc.annealing.steps.engine import StepEngine
from pymc_bdmc.annealing.tasks import AnnealTask, Engine, PilotTask

__all__ = [
    "AnnealTask",
    "CompiledEngine",
    "Engine",
    "ExecutorPool",
    "PathTuning",
    "PilotTask",
    "Recorder",
    "StepEngine",
    "ThreadPool",
    "WorkerPool",
    "anneal",
    "make_engine",
]
