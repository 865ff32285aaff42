"""Data from posterior draws: θ′ is a sample of the posterior given the real and the new data."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.compiled import CompiledEngine
from pymc_bdmc.kernels.state import evaluate, make_state
from pymc_bdmc.simulations import FromPosterior, FromPrior

pytestmark = pytest.mark.usefixtures("quickly_compiled")
PRIOR, CHANCES, TRIALS, SEEN = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.5, 0.9]), 3, 2
LIKELIHOOD = stats.binom.pmf(np.arange(TRIALS + 1), TRIALS, CHANCES[:, None])
"""p(y | state), shape (states, values of y)."""
ALPHA = 1e-4


@pytest.fixture(scope="module")
def density():
    with pm.Model() as model:
        state = pm.Categorical("state", PRIOR)
        pm.Binomial("y", TRIALS, pm.math.constant(CHANCES)[state], observed=[SEEN])
    return TemperedDensity(model)


def draws_of(shares):
    """Draws in which states have these shares, to a thousandth."""
    states = np.repeat(np.arange(3), np.round(1000 * shares).astype(int))
    dataset = xr.Dataset({"state": (("chain", "draw"), [states])})
    return xr.DataTree.from_dict({"posterior": dataset})


def posterior(*data):
    weights = PRIOR * np.prod([LIKELIHOOD[:, y] for y in data], axis=0)
    return weights / weights.sum()


@pytest.mark.parametrize("is_right", [True, False])
def test_a_state_is_a_sample_given_both_data_sets(density, is_right):
    """The chi-squared test of the pairs at α = 1e-4; draws of the prior fail it."""
    shares = posterior(SEEN) if is_right else PRIOR
    sets = FromPosterior(draws_of(shares), datasets=900).simulate(density, 1, fit=None)
    pairs = np.array([(int(each.point["state"]), int(each.data["y"][0])) for each in sets])
    assert all(each.status == "posterior draw" and not each.burn_in for each in sets)
    assert all(each.real["y"] == SEEN for each in sets)
    statistic = 0.0
    for new in range(TRIALS + 1):
        states = pairs[pairs[:, 1] == new, 0]
        expected = posterior(SEEN, new)
        found = np.bincount(states, minlength=3)
        statistic += np.sum((found - len(states) * expected) ** 2 / (len(states) * expected))
    assert (stats.chi2.sf(statistic, 2 * (TRIALS + 1)) > ALPHA) == is_right


def test_runs_are_on_both_data_sets():
    """log p(θ) counts once, ℓ and its gradient are sums over the real and the new data."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Normal("y", x, 1, observed=[1.0, -1.0])
        pm.Poisson("n", pm.math.exp(x.sum()), observed=3)
    density = TemperedDensity(model)
    draws = xr.Dataset({"x": (("chain", "draw", "i"), np.full((1, 4, 2), 0.3))})
    [made] = FromPosterior(draws, datasets=1).simulate(density, 1, fit=None)
    engine = CompiledEngine(density)
    theta = engine.jitted.ravel(made.point)

    def terms(data):
        state = make_state(2, 2)
        state.theta[:] = theta
        evaluate(engine.on(data).target, state)
        return *state.terms, state.log_likelihood_gradient

    of_real, of_new, of_both = map(terms, (density.data, made.data, made.all_data))
    assert of_real[0] == of_new[0] == of_both[0]
    assert of_real[1] + of_new[1] == pytest.approx(of_both[1])
    assert of_real[2] + of_new[2] == pytest.approx(of_both[2])
    [from_prior] = FromPrior(1).simulate(density, 1)
    sizes = (len(engine.jitted.ravel_data(d)) for d in (from_prior.all_data, made.all_data))
    assert [2 * next(sizes)] == [next(sizes)]


def test_draws_of_another_model_or_other_data_are_refused(density):
    draws = draws_of(PRIOR)
    draws["observed_data"] = xr.DataTree(xr.Dataset({"y": ("i", [0])}))
    with pytest.raises(ValueError, match=r"idata: .*other data"):
        FromPosterior(draws).check(density)
    with pytest.raises(ValueError, match=r"idata: .*state"):
        FromPosterior(xr.Dataset({"z": (("chain", "draw"), np.zeros((1, 4)))})).check(density)
    with pytest.raises(ValueError, match="datasets"):
        FromPosterior(datasets=0)
