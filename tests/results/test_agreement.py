"""All draws of a sampler against a run's own: good, open or bad where they should be, and why."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.stats import binom

import pymc_bdmc as bdmc
from pymc_bdmc.density.draws import as_idata
from pymc_bdmc.density.prior import joint_density
from pymc_bdmc.results.agreement import LOG_JOINT, agreement_dataset
from pymc_bdmc.results.reading import Reading
from tests.models import interpreted
from tests.results.trees import particles

RNG = np.random.default_rng(1)
X = RNG.multivariate_normal(np.zeros(3), 0.05 * np.eye(3) + 0.95, size=40)
Y = X @ np.ones(3) + RNG.normal(size=40)
COVARIANCE = np.linalg.inv(X.T @ X + np.eye(3))
MEAN, SD = COVARIANCE @ X.T @ Y, np.sqrt(np.diag(COVARIANCE))
"""Moments of the coefficients, whose prior is standard normal."""


with pm.Model(coords={"of": list("abc")}) as MODEL:
    BETA = pm.Normal("beta", dims="of")
    pm.Deterministic("total", BETA.sum())
    pm.Normal("y", X @ BETA, 1, observed=Y)


def tree(dims, weights=None, **values):
    """A result with these particles."""
    group = particles(weights, dims, **values)
    group.attrs["free_variables"] = [name for name in values if name != "total"]
    return xr.DataTree.from_dict({"particles": group})


def draws_of(dims, **values):
    found = {name: (("chain", "draw", *dims.get(name, ())), v) for name, v in values.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(found)})


OF = {"beta": ["of"]}


def coefficients(size, rng):
    return rng.multivariate_normal(MEAN, COVARIANCE, size=size)


def as_result(beta):
    dt = tree(OF, beta=beta, total=beta.sum(axis=-1))
    dt["particles"] = dt["particles"].dataset.assign_coords(of=list("abc"))
    return dt


@pytest.fixture(scope="module")
def result():
    return as_result(coefficients((16, 96), np.random.default_rng(2)))


def given(beta):
    return draws_of(OF, beta=beta, total=beta.sum(axis=-1))


NARROW = np.sqrt(1 / np.diag(X.T @ X + np.eye(3)))
WRONG = {
    "twice the deviation": lambda b, rng: MEAN + 2 * (b - MEAN),
    "shifted by one deviation": lambda b, rng: b + SD,
    "a mean field": lambda b, rng: MEAN + NARROW * rng.normal(size=b.shape),
    "100 draws repeated": lambda b, rng: np.tile(b[:, :25], (1, 20, 1)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_draws_are_told(result, wrong):
    rng = np.random.default_rng(3)
    with MODEL:
        found = bdmc.agreement(result, given(WRONG[wrong](coefficients((4, 500), rng), rng)))
    assert found.status == "bad", found
    assert "2000 draws that you gave are" in found.text
    assert "bdmc.verdict(dt) says" in found.text
    assert ("are copies: each occurs 20 times" in found.text) == (wrong == "100 draws repeated")
    assert (NARROW / SD).min() < 0.4


def test_sound_draws_are_good_and_it_prints_and_shows_and_is_kept(result, tmp_path):
    draws = coefficients((4, 1000), np.random.default_rng(4))
    found = bdmc.agreement(result, given(draws), model=MODEL)
    assert found.status == "good", found
    assert found.text.startswith("The 4000 draws that you gave agree")
    assert {*found.table.index} == {
        "beta[a]", "beta[b]", "beta[c]", "total", LOG_JOINT,
        "wider direction", "narrower direction", "shifted direction",
    }  # fmt: skip
    assert found.table["status"].iloc[-1] == "good"
    assert (found.table["shift_lower"] < 0).all()
    assert (found.table["ratio_upper"] > 1).all()
    assert repr(found) == str(found) == found.text
    assert "<table" in found._repr_html_()
    dt = xr.DataTree.from_dict({"agreement": agreement_dataset(found)})
    dt.to_netcdf(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as stored:
        kept = Reading.of(stored).agreement
        assert (kept["status"], kept["text"]) == (found.status, found.text)
        np.testing.assert_allclose(kept["table"]["shift"], found.table["shift"])
        assert kept["table"].index.tolist() == found.table.index.tolist()


def test_few_draws_are_open_and_it_is_said_what_would_do(result):
    rng = np.random.default_rng(7)

    def judged(dt, chains, draws):
        return bdmc.agreement(dt, given(coefficients((chains, draws), rng)))

    found = judged(result, 1, 300)
    assert found.status == "open"
    wanted = int(found.text.split(" is the least certain row; ")[1].split()[0])
    assert judged(result, 1, wanted).status == "good"
    found = judged(as_result(coefficients((16, 8), rng)), 4, 1000)
    assert found.status == "open"
    runs = int(found.text.split("chains=")[1].split()[0])
    assert judged(as_result(coefficients((runs, 8), rng)), 4, 1000).status == "good"


def test_chains_that_contradict_each_other_are_bad(result):
    """One of four is shifted. The twin is as slow as a random walk, and is open."""
    beta = coefficients((4, 500), np.random.default_rng(8))
    beta[0] += 0.5
    twin = bdmc.agreement(result, given(np.sort(beta, axis=1)))
    assert (twin.status, twin.contradicts) == ("open", False)
    assert "Run that sampler longer, until every R̂" in twin.text
    found = bdmc.agreement(result, given(beta))
    assert (found.status, found.contradicts) == ("bad", True)
    worst = found.table.loc[found.table["rhat"].idxmax()]
    assert worst["rhat"] > 1.01
    assert found.text.startswith(
        f"Your chains contradict each other: the mean of {worst.name!r} is "
        f"{worst['lowest']:.4g} in one"
    )
    assert worst["highest"] - worst["lowest"] > 0.4
    for chain, is_bad in ((0, True), (1, False)):
        each = bdmc.agreement(result, given(beta).sel(chain=[chain]))
        assert (each.status == "bad") is is_bad


def test_chains_that_are_stuck_far_away_are_bad_and_come_first(result):
    """R̂ and effective sample sizes say nothing of chains that stay where they are."""
    rng = np.random.default_rng(15)
    beta = coefficients((4, 500), rng)
    beta[2] = beta[2, :1] + 400 * SD * [0, 1, 0]
    found = bdmc.agreement(result, given(beta), model=MODEL)
    assert found.status == "bad"
    assert found.table.index[0] in ("beta[b]", "total", LOG_JOINT)
    assert "nine tenths of the draws of a chain are more than" in found.text
    assert found.table.loc["beta[b]", "away"] == pytest.approx(400, rel=0.05)


def test_a_run_that_contradicts_itself_judges_nothing():
    rng = np.random.default_rng(9)
    beta, far = coefficients((16, 96), rng), given(coefficients((4, 1000), rng) + 9)
    assert bdmc.agreement(as_result(beta), far).status == "bad"
    weights = np.where(np.arange(16) == 0, 1.0, 0.0)[:, None] * np.ones(96)
    uneven = tree(OF, weights, beta=beta)
    apart = as_result(beta + 9 * (np.arange(16) % 2)[:, None, None])
    for dt, said in ((uneven, "so uneven"), (apart, "different places")):
        found = bdmc.agreement(dt, far)
        assert found.status == "open"
        assert said in found.text


def with_runs(dt, log_weights):
    """The same result, with runs on the real data that have these weights."""
    runs = {"log_weight": log_weights, "prior_draws": np.ones(16)}
    return dt.assign(real=xr.DataTree(xr.Dataset({n: ("chain", v) for n, v in runs.items()})))


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        (-5.0, -9.0, "This run has a higher log ML"),
        (-9.0, -5.0, "The run that you gave has a higher log ML"),
        (-5.0, -5.2, ""),
        (6.0 * (np.arange(16) == 3), None, "may be this run that is wrong"),
        (0.0, None, ""),
    ],
)
def test_a_run_whose_log_ml_is_refuted_or_fails_its_check_is_named(result, own, other, said):
    rng = np.random.default_rng(10)
    draws, noise = given(coefficients((4, 500), rng) + 3), 0.05 * rng.normal(size=16)
    draws = draws if other is None else with_runs(draws, other + noise)
    found = bdmc.agreement(with_runs(result, own + noise), draws)
    assert found.status == "bad"
    assert said in found.text
    assert bool(said) == ("higher log ML" in found.text or "this run that is" in found.text)


def test_variables_of_any_shape_and_kind():
    """Prior draws stand for both sources: matrices, constants, discrete and transformed ones."""
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.Exponential.dist(1))
        share = pm.Dirichlet("share", np.ones(3))
        cuts = pm.Normal("cuts", [-1, 0, 1], 0.1, transform=pm.distributions.transforms.ordered)
        kind = pm.Categorical("kind", share, shape=4)
        pm.Bernoulli("rare", 0.01)
        pm.Deterministic("at", cuts[kind])
        pm.Normal("y", chol[1, 0] + cuts[kind], observed=np.zeros(4))
    with interpreted():
        drawn = pm.sample_prior_predictive(1200, model=model, random_seed=1)["prior"].dataset
    drawn = drawn.drop_vars(drawn.coords).isel(chain=0)
    own, others = drawn.isel(draw=slice(400)), drawn.isel(draw=slice(400, None))
    values = {name: v.values.reshape(16, 25, *v.shape[1:]) for name, v in own.items()}
    dt = tree({name: v.dims[1:] for name, v in drawn.items()}, **values)
    dt["particles"].attrs["free_variables"] = [rv.name for rv in model.free_RVs]
    with model, interpreted():
        found = bdmc.agreement(dt, others)
    assert found.status != "bad"
    assert found.table.loc["chol_corr[0, 0]", "status"] == "good"
    assert np.isnan(found.table.loc["rare", "shift"])
    assert LOG_JOINT in found.table.index
    assert bdmc.agreement(dt, others.assign(kind=0 * others["kind"])).status == "bad"


def numbered(whole):
    posterior = whole["posterior"].dataset
    return posterior.assign_coords({dim: range(posterior.sizes[dim]) for dim in ("chain", "draw")})


def test_draws_come_in_many_forms(result):
    whole = given(coefficients((1, 1000), np.random.default_rng(12)))
    expected = bdmc.agreement(result, whole).table.loc["beta[c]", "distance"]
    draws = whole["posterior"].dataset
    permuted = draws.assign_coords(of=list("abc")).sel(of=list("cab"))
    for other in (
        draws,
        draws.isel(chain=0),
        xr.DataTree.from_dict({"posterior": permuted.transpose("of", "draw", "chain")}),
        draws.drop_vars("total").assign(another=("draw", np.ones(1000))),
        whole["posterior"],
        numbered(whole).stack(sample=("chain", "draw")),
    ):
        assert bdmc.agreement(result, other).table.loc["beta[c]", "distance"] == expected


def test_a_part_of_stacked_draws_is_one_chain_in_the_order_of_the_sampler(result):
    """As `arviz.extract` shuffles them."""
    rng = np.random.default_rng(12)
    stacked = numbered(given(coefficients((2, 200), rng))).stack(sample=("chain", "draw"))
    chosen = rng.permutation(400)[:150]
    found = as_idata("idata", stacked.isel(sample=chosen))["posterior"]["beta"]
    assert found.sizes["chain"] == 1
    expected = stacked.isel(sample=np.sort(chosen))["beta"].transpose("sample", "of")
    own = found.transpose("chain", "draw", "of")
    np.testing.assert_array_equal(own.values[0], expected.values)
    assert bdmc.agreement(result, stacked.isel(sample=chosen)).status != "bad"


def test_dates_are_labels():
    rng = np.random.default_rng(15)
    days = pd.date_range("2024-01-30", periods=3)
    dt = tree({"x": ["day"]}, x=rng.normal(size=(16, 64, 3)))
    dt["particles"] = dt["particles"].dataset.assign_coords(day=days)
    draws = xr.Dataset({"x": (("draw", "day"), rng.normal(size=(500, 3)))}, {"day": days[::-1]})
    rows = bdmc.agreement(dt, draws).table.index
    assert {"x[2024-01-30]", "x[2024-01-31]", "x[2024-02-01]"} < set(rows)


def changed(**changes):
    return given(np.zeros((2, 100, 3)))["posterior"].dataset.assign(**changes)


@pytest.mark.parametrize(
    ("idata", "said"),
    [
        (changed().drop_vars("beta"), r"lacks the variables \['beta'\]"),
        (changed().rename(beta="betas"), r"Is it betas\? Rename: .*rename\({'betas': 'beta'}\)"),
        (changed().isel(of=[0, 1]).rename(of="to"), r"has the shape \(2,\), the run's \(3,\)"),
        (changed().isel(draw=slice(40)), "80 draws are too few to judge; 100 are needed"),
        (
            changed().rename(chain="chains", draw="iteration"),
            r"idata.rename\(chains='chain', iteration='draw'\)",
        ),
        (
            xr.DataTree.from_dict({"posterior": changed().rename(draw="sample")}),
            r"idata\['posterior'\].dataset.rename\(sample='draw'\)",
        ),
        (changed(total=("draw", np.ones(100))), "total lacks the dimension chain or draw"),
        (changed(beta=changed()["beta"] / 0), "600 of 600 values of its beta are NaN or infinite"),
        ({"beta": 1}, "a group 'posterior'.* got dict"),
        (changed(beta=changed()["beta"].astype(str)), "beta is not numeric"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:(invalid|divide):RuntimeWarning")
def test_bad_draws_are_named(result, idata, said):
    with pytest.raises(ValueError, match=said):
        bdmc.agreement(result, idata)


def test_some_variables_may_be_compared_alone(result):
    beta = coefficients((4, 1000), np.random.default_rng(14))
    alone = given(beta)["posterior"].dataset.drop_vars("beta")
    found = bdmc.agreement(result, alone, model=MODEL, var_names=["total"])
    assert found.table.index.tolist() == ["total"]
    assert found.status == "good"
    with pytest.raises(ValueError, match=r"var_names: the run has no variables \['sum'\]"):
        bdmc.agreement(result, alone, var_names=["sum"])


def test_other_data_and_results_without_real_data_are_refused(result):
    dt, idata = result.copy(), given(np.zeros((2, 100, 3)))
    for each, y in ((dt, Y), (idata, Y + 1)):
        each["observed_data"] = xr.Dataset({"y": ("unit", y)})
    with pytest.raises(ValueError, match="fit to other data: its y in observed_data"):
        bdmc.agreement(dt, idata)
    with pytest.raises(ValueError, match="real_data=True"):
        bdmc.agreement(xr.DataTree.from_dict({"forward": xr.Dataset()}), idata)


def test_a_graph_that_has_no_rows_is_computed_draw_by_draw():
    """PyTensor builds its vectorised form, which fails when it is computed."""
    with pm.Model() as model:
        count = pm.Binomial("count", 2, 0.5)
        z = pm.Normal("z", shape=2)
        pm.Normal("y", z[:count].sum(), 1.0, observed=0.5)
    counts, zs = np.array([0, 1, 2]), np.array([[0.1, 0.2], [-0.3, 1.0], [0.5, 0.7]])
    means = [row[:n].sum() for row, n in zip(zs, counts, strict=True)]
    expected = binom.logpmf(counts, 2, 0.5) + stats.norm.logpdf(zs).sum(axis=1)
    expected += stats.norm.logpdf(0.5, means)
    np.testing.assert_allclose(joint_density(model)({"count": counts, "z": zs}), expected)
