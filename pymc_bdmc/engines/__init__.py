"""Annealing loops of the two engines, and pools that run many chains in parallel."""

from pymc_bdmc.engines.choice import make_engine
from pymc_bdmc.engines.compiled.engine import CompiledEngine
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.driver import anneal
from pymc_bdmc.engines.executors import ExecutorPool, WorkerPool
from pymc_bdmc.engines.pools import ThreadPool
from pymc_bdmc.engines.recorder import Recorder
from pymc_bdmc.engines.steps.engine import StepEngine
from pymc_bdmc.engines.tasks import (
    AnnealTask,
    Engine,
    ModelEngine,
    PilotTask,
    RefitTask,
    TunedEngine,
)

__all__ = [
    "AnnealTask",
    "CompiledEngine",
    "Engine",
    "ExecutorPool",
    "ModelEngine",
    "PathTuning",
    "PilotTask",
    "Recorder",
    "RefitTask",
    "StepEngine",
    "ThreadPool",
    "TunedEngine",
    "WorkerPool",
    "anneal",
    "make_engine",
]
