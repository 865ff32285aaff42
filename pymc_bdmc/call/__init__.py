"""A call, stage by stage: request, prepared runs, rounds of annealing, result."""

from pymc_bdmc.call.call import finish as finish
from pymc_bdmc.call.null import null_result as null_result
from pymc_bdmc.call.opened import open_campaign as open_campaign
from pymc_bdmc.call.options import Compilation as Compilation
from pymc_bdmc.call.options import Ladder as Ladder
from pymc_bdmc.call.options import Limits as Limits
from pymc_bdmc.call.options import Resources as Resources
from pymc_bdmc.call.prepared import prepare as prepare
from pymc_bdmc.call.request import Question as Question
from pymc_bdmc.call.request import Request as Request
from pymc_bdmc.call.request import Size as Size
