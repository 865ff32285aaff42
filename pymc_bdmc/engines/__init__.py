"""Annealing loops of the two engines, and workers that run many chains in parallel."""

from pymc_bdmc.engines.choice import make_engine as make_engine
from pymc_bdmc.engines.compiled.engine import CompiledEngine as CompiledEngine
from pymc_bdmc.engines.compiled.pilot import PathTuning as PathTuning
from pymc_bdmc.engines.driver import anneal as anneal
from pymc_bdmc.engines.recorder import Recorder as Recorder
from pymc_bdmc.engines.steps.engine import StepEngine as StepEngine
from pymc_bdmc.engines.tasks import AnnealTask as AnnealTask
from pymc_bdmc.engines.tasks import Engine as Engine
from pymc_bdmc.engines.tasks import ModelEngine as ModelEngine
from pymc_bdmc.engines.tasks import PilotTask as PilotTask
from pymc_bdmc.engines.tasks import RefitTask as RefitTask
from pymc_bdmc.engines.tasks import TunedEngine as TunedEngine
from pymc_bdmc.engines.workers import open_workers as open_workers
