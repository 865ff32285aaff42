"""Models of `pymc.dims` become models of plain tensors with the same density, names and dims."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytest
from pymc.dims.distributions import transforms

import pymc_bdmc as bdmc
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.plain import plain_model
from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from tests.density.short import QUICK
from tests.models import interpreted

COORDS = {"group": ["a", "b", "c"], "wide": [1, 2], "row": np.arange(6), "other": range(3)}
X, Y = np.linspace(-1, 1, 6), np.array([0.1, 0.5, 0.3, 0.9, 1.2, 2.0])
OPTIONS = {"simulate": None, "random_seed": 1, "cores": 1, "progressbar": False}


def labels(values, *dims):
    return pmd.as_xtensor(np.array(values), dims=dims)


def vector(*values):
    return labels(values, "group")


def normal(n):
    return pmd.Normal(n, vector(0.0, 1.0, 2.0), 2.0)


def zero_sums(n):
    return pmd.ZeroSumNormal(n, core_dims="group", dims=("wide", "group"))


SCALARS = {
    "real": normal,
    "transposed": lambda n: pmd.Normal(n, vector(0.0, 1, 2), 2, dims=("group", "wide")),
    "circular": lambda n: pmd.VonMises(n, 0.0, 2.0),
    "positive": lambda n: pmd.Gamma(n, 2.0, 3.0, dims=("wide", "group")),
    "two bounds": lambda n: pmd.TruncatedNormal(n, 0.0, 1.0, lower=-1.0, upper=2.0),
    "log-odds": lambda n: pmd.Beta(n, 2.0, vector(1.0, 2.0, 3.0)),
    "interval": lambda n: pmd.Uniform(n, -1.0, 2.0, dims="group"),
    "bounds by group": lambda n: pmd.Normal(
        n, 0.0, 1.0, dims=("wide", "group"),
        transform=transforms.IntervalTransform(vector(-9.0, -8.0, -7.0), 9.0),
    ),
    "counts": lambda n: pmd.Binomial(n, n=5, p=vector(0.2, 0.3, 0.4)),
}  # fmt: skip
VECTORS = {
    "simplex": lambda n: pmd.Dirichlet(
        n, vector(1.0, 2.0, 3.0), core_dims="group", dims=("wide", "group")
    ),
    "zero sum": zero_sums,
    "two zero sums": lambda n: pmd.ZeroSumNormal(
        n, core_dims=("wide", "group"), dims=("wide", "group")
    ),
    "correlated": lambda n: pmd.MvNormal(
        n, vector(0.0, 1.0, 2.0), core_dims=("group", "other"),
        cov=labels(np.eye(3) + 0.5, "group", "other"),
    ),
    "labels": lambda n: pmd.Categorical(n, vector(0.2, 0.3, 0.5), core_dims="group"),
}  # fmt: skip


def model(*makers):
    """A model with a variable by each of them, a Deterministic, a Potential and data."""
    with pm.Model(coords=COORDS) as found:
        variables = [make(f"x{i}") for i, make in enumerate(makers)]
        mean = sum(x.astype("float64").mean(x.dims) for x in variables)
        pmd.Deterministic("twice", 2.0 * variables[0])
        pmd.Potential("soft", -(mean**2))
        pmd.Normal("y", mean * pmd.Data("data", X, dims="row"), observed=labels(Y, "row"))
    return found


@pytest.mark.parametrize("families", [SCALARS, VECTORS], ids=["scalars", "vectors"])
def test_the_density_is_that_of_pymc(families):
    """At a prior draw; the dims and the order of variables are kept too."""
    labelled = model(*families.values())
    plain = plain_model(labelled)
    sampler = TemperedDensity(plain).prior
    sampler.seed(np.random.default_rng(1))
    point, _ = sampler.draw()
    with interpreted():  # the inner graphs too
        expected, found = (
            each.compile_logp(sum=False, mode=INTERPRETED)(point) for each in (labelled, plain)
        )
    assert len(found) == len(families) + 2
    for name, first, second in zip(families, found, expected, strict=False):
        np.testing.assert_allclose(first, second, rtol=1e-9, err_msg=name)
    assert np.isfinite(sum(each.sum() for each in found))
    dims = {name: each for name, each in labelled.named_vars_to_dims.items() if each}
    assert plain.named_vars_to_dims == dims
    assert dict(plain.coords) == dict(labelled.coords)
    assert [rv.name for rv in plain.basic_RVs] == [rv.name for rv in labelled.basic_RVs]


def regression():
    with pm.Model(coords=COORDS) as found:
        effect = pmd.Normal("effect", 0, 1, dims="group")
        scale = pmd.HalfNormal("scale")
        pmd.Deterministic("doubled", 2 * effect, dims="group")
        mean = effect.mean("group") * labels(X, "row")
        pmd.Normal("y", mean, scale, observed=labels(Y, "row"), dims="row")
    return found


def test_the_result_of_a_call_has_the_dimensions_of_the_model():
    labelled = regression()
    dt = pm.sample_bdmc(labelled, **OPTIONS)
    assert dt["posterior"].coords["group"].values.tolist() == COORDS["group"]
    assert dt["posterior"]["doubled"].dims == ("chain", "draw", "group")
    assert dt["observed_data"]["y"].dims == ("row",)
    draws = dt["posterior"].to_dataset()[["effect", "scale"]]
    assert "log p(θ, y)" in bdmc.agreement(dt, draws, model=labelled).table.index
    table = bdmc.sensitivity(dt, lambda _: regression(), [1], random_seed=1)
    assert table["log_ml"].iloc[0] == pytest.approx(bdmc.log_ml(dt).value)


def test_new_data_are_seen():
    labelled, at = model(normal), {"x0": np.array([0.5, 0.1, -0.3])}
    with interpreted(), labelled:
        before = checked_model(labelled).point_logps(at)["y"]
        pm.set_data({"data": 2 * X})
        assert checked_model(labelled).point_logps(at)["y"] != before


class Own(transforms.DimTransform):
    """A transform of the user's own."""

    def forward(self, value, *inputs):
        return value

    backward = log_jac_det = forward


BAD = {
    "x0: an improper prior": pmd.Flat,
    "x0: the dimensions of its vectors must be the last ones": lambda n: pmd.ZeroSumNormal(
        n, core_dims="group", dims=("group", "wide")
    ),
    "x0: its transform, Own, has no counterpart": lambda n: pmd.HalfNormal(n, transform=Own()),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_converted_is_refused_in_a_sentence(message):
    """The remedy for the order of dimensions is in the families above."""
    with pytest.raises(ValueError, match=message):
        pm.sample_bdmc(model(BAD[message]), **OPTIONS)


def test_censored_data():
    """The log density of PyMC, and simulated data within the bounds."""
    with pm.Model(coords=COORDS) as labelled:
        dist = pmd.Normal.dist(pmd.Normal("mean"), 1.0)
        observed = labels(np.clip(Y, 0.2, 1.0), "row")
        pmd.Censored("y", dist, lower=0.2, upper=1.0, observed=observed)
    plain = checked_model(labelled)
    with interpreted():
        assert plain.point_logps({"mean": 0.3}) == labelled.point_logps({"mean": 0.3})
    _, data = TemperedDensity(plain, QUICK).joint().draw()
    assert ((data["y"] >= 0.2) & (data["y"] <= 1.0)).all()
