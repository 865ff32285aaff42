"""What a call will take is said before it begins, and refused where the machine has no room."""

import re
import time

import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc import arguments, sampling
from pymc_bdmc.arguments import check_memory
from tests.models import conjugate_regression


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


@pytest.mark.parametrize("step", [None, pm.Slice])
def test_the_time_is_told_from_the_pilot(caplog, monkeypatch, step):
    """Processor time within a factor of 4: the cost of a move differs along β."""
    seconds = []

    def timed(*args, anneal=sampling.anneal_in_rounds):
        started = time.process_time()
        rounds = anneal(*args)
        seconds.append(time.process_time() - started)
        return rounds

    monkeypatch.setattr(sampling, "anneal_in_rounds", timed)
    n = 30 if step else 300
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        pm.sample_bdmc(
            conjugate_regression(d=5, n=200)[0], chains=20, temperatures=[n // 3, n], path="prior",
            simulate=bdmc.FromPrior(1), step=step, random_seed=1, cores=1, progressbar=False,
        )  # fmt: skip
    told = re.search(
        rf"Ahead: 60 runs, T = {n // 3}, {n}, N = .*: by the pilot about (\S+) s", caplog.text
    )
    assert 0.25 < float(told[1]) / seconds[0] < 4
