"""A call, stage by stage: request, prepared runs, rounds of annealing, result."""

from pymc_bdmc.campaign.call import finish as finish
from pymc_bdmc.campaign.null import null_result as null_result
from pymc_bdmc.campaign.opened import open_campaign as open_campaign
from pymc_bdmc.campaign.options import Compilation as Compilation
from pymc_bdmc.campaign.options import Ladder as Ladder
from pymc_bdmc.campaign.options import Limits as Limits
from pymc_bdmc.campaign.options import Resources as Resources
from pymc_bdmc.campaign.prepared import prepare as prepare
from pymc_bdmc.campaign.request import Question as Question
from pymc_bdmc.campaign.request import Request as Request
from pymc_bdmc.campaign.request import Size as Size
