"""What a call will take is said before it begins, and refused where the machine has no room."""

import re

import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.base import arguments
from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.call import tree
from tests.call.test_sampling import normal_model


def test_what_would_fit_fits_and_no_more(monkeypatch):
    def needed(chains, draws):
        return 8 * chains * (draws + 3)

    monkeypatch.setattr(arguments, "_memory", lambda: 10_000.0)
    check_memory(needed, chains=100, draws=9)
    with pytest.raises(
        ValueError, match=r"chains=100, draws=50: this takes at least .* GiB"
    ) as error:
        check_memory(needed, chains=100, draws=50)
    assert str(error.value).endswith("Ask for less: chains=23 or draws=9 would fit.")
    for name, largest in dict(chains=23, draws=9).items():
        others = dict(chains=100, draws=50)
        check_memory(needed, **others | {name: largest})
        with pytest.raises(ValueError, match="would fit"):
            check_memory(needed, **others | {name: largest + 1})
    with pytest.raises(ValueError, match=r"Ask for less of each\.$"):
        check_memory(needed, chains=10**6, draws=10**6)


OPTIONS = {"chains": 4, "particles": 3, "temperatures": [2, 4], "path": "prior"}
OPTIONS |= {"schedule": "adaptive"}
OPTIONS |= {"simulate": bdmc.FromPrior(1), "random_seed": 1, "cores": 1, "progressbar": False}


@pytest.mark.parametrize("step", [None, pm.Metropolis])
def test_the_time_is_told_from_the_pilot(caplog, monkeypatch, step):
    """The seconds of a move as the pilot took them, times all moves ahead.

    Step methods take an adaptive schedule, too, in rounds.
    """
    ahead = []

    def anneal(session, plan, result, anneal=tree.anneal_in_rounds):
        for side in plan.sides:
            moves = sum(each.n_temperatures + side.further_moves for each in plan.schedules)
            ahead.append((side.chains * side.particles * moves, side.tuning.seconds_a_move))
        return anneal(session, plan, result)

    monkeypatch.setattr(tree, "anneal_in_rounds", anneal)
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        dt = pm.sample_bdmc(normal_model(), step=step, **OPTIONS)
    assert dt.attrs["schedule"] == "adaptive"
    assert (dt["forward"]["thermodynamic_length"] > 0).all()
    told = re.search(
        r"Ahead: 12 runs \(temperatures: 2, 4; particles: 3\), about (\S+) s", caplog.text
    )
    n_moves = sum(moves for moves, _ in ahead)
    assert 3 * 4 * 3 * (2 + 4) <= n_moves < 1.5 * 3 * 4 * 3 * (2 + 4)
    assert all(seconds > 0 for _, seconds in ahead)
    assert told[1] == f"{sum(moves * seconds for moves, seconds in ahead):.2g}"
