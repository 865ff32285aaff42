"""A call, stage by stage: request, prepared runs, rounds of annealing, result."""

from pymc_bdmc.campaign.call import finish
from pymc_bdmc.campaign.null import null_result
from pymc_bdmc.campaign.opened import open_campaign
from pymc_bdmc.campaign.options import Compilation, Ladder, Limits, Resources
from pymc_bdmc.campaign.prepared import prepare
from pymc_bdmc.campaign.request import Question, Request, Size

__all__ = [
    "Compilation",
    "Ladder",
    "Limits",
    "Question",
    "Request",
    "Resources",
    "Size",
    "finish",
    "null_result",
    "open_campaign",
    "prepare",
]
