"""A call, stage by stage: request, prepared runs, rounds of annealing, result."""

from pymc_bdmc.campaign.call import anneal, finish
from pymc_bdmc.campaign.options import Compilation, Ladder, Limits, Resources
from pymc_bdmc.campaign.prepared import open_campaign, prepare
from pymc_bdmc.campaign.request import Question, Request, Size

__all__ = [
    "Compilation",
    "Ladder",
    "Limits",
    "Question",
    "Request",
    "Resources",
    "Size",
    "anneal",
    "finish",
    "open_campaign",
    "prepare",
]
