"""Bad input is refused before any sampling, by an error that names it and the remedy."""

import datetime
import inspect
import warnings
from concurrent.futures import Executor

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.tensor.random.op import RandomVariable

import pymc_bdmc as bdmc
from pymc_bdmc import FromHyperparameters as Fitted
from pymc_bdmc import FromPrior, Given
from pymc_bdmc.base.arguments import REMEDIES
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.run.workers import Workers
from tests.call.test_sampling import SMALL, mixed_model, normal_model
from tests.models import hard_constraint


def flat():
    with pm.Model() as model:
        x = pm.Flat("slope")
        pm.Normal("y", x, observed=0.0)
    return model


def unobserved():
    with pm.Model() as model:
        pm.Normal("x")
    return model


def minibatch():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, observed=pm.Minibatch(np.zeros(10), batch_size=2), total_size=10)
    return model


def count_model():
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Beta("p", 2, 3), observed=3)
    return model


def impossible_at_zero():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Binomial("y", 10, pm.math.switch(x > 0, 0.5, 1.0), observed=3)
    return model


def negative_scale():
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.Normal("scale"), observed=1.0)
    return model


def too_few_data():
    with pm.Model() as model:
        pm.Normal("y", np.ones((5, 3)) @ pm.Normal("slope", shape=3), observed=np.zeros(4))
    return model


def groups_from_one():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("effect", shape=2)[np.array([1, 2])], observed=np.zeros(2))
    return model


def potential_beyond_the_end():
    with pm.Model() as model:
        pm.Potential("pull", -(pm.Normal("x", shape=2)[np.array([0, 2])] ** 2).sum())
    return model


def parent_beyond_the_end():
    with pm.Model() as model:
        mean = pm.Normal("mean", shape=2)
        pm.Normal("y", pm.Normal("x", mean[np.array([2])]), observed=[0.0])
    return model


def masked_vectors():
    data = np.ma.masked_invalid([[1.0, np.nan, 0.5]])
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        pm.MvNormal("y", pm.Normal("x") * np.ones(3), np.eye(3), observed=data)
    return model


def simulator():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Simulator("sim", lambda rng, mu, size: rng.normal(mu, size=size), x, observed=[0.0])
    return model


def custom_without_draws():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.CustomDist("likely", x, logp=lambda v, mu: -((v - mu) ** 2), observed=np.ones(2))
    return model


def trees():
    """With what pymc_bart puts into a model: an operation of a class made for each variable."""
    base = type("BARTRV", (RandomVariable,), {"__module__": "pymc_bart.bart", "rng_fn": None})
    op = type("BART_mu", (base,), {})("BART", signature="()->()", dtype="float64")
    with pm.Model() as model:
        mu = model.register_rv(op(0.0), "mu")
        pm.Normal("y", mu, observed=0.5)
    return model


def named(free="x", observed="y", dim=None, coord=(0, 1)):
    """A model with these names."""
    with pm.Model(coords={} if dim is None else {dim: coord}) as model:
        x = pm.Normal(free, dims=dim) if dim else pm.Normal(free)
        pm.Normal(observed, x, observed=np.zeros(2) if dim else 0.0)
    return model


def without_data(observed):
    def make():
        with warnings.catch_warnings(), pm.Model() as model:
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            pm.Normal("y", pm.Normal("x"), observed=observed)
        return model

    return make


class Closed(Executor):
    """Takes nothing, as one of which all workers are gone."""

    def submit(self, *args, **kwargs):
        raise RuntimeError("no workers")


def fit(*shape, name="x", **observed):
    """A fit with draws of one variable, in a shape that begins with chain and draw."""
    dims = ["chain", "draw", "row"][: len(shape)]
    groups = {"posterior": xr.Dataset({name: (dims, np.zeros(shape))})}
    if observed:
        groups["observed_data"] = xr.Dataset(observed)
    return xr.DataTree.from_dict(groups)


DATES = (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))


def one(build):
    """A model whose variable ``x`` is built so, and data that depend on it."""

    def make():
        with warnings.catch_warnings(), pm.Model() as model:
            warnings.simplefilter("ignore")
            x = build("x")
            pm.Normal("likely", x.sum(), 1.0, observed=1.0)
        return model

    return make


def undefined(name):
    return pm.Normal(name, pm.math.log(pm.Normal("parent")) * np.ones(1000), 1.0)


def undefined_data():
    with pm.Model() as model:
        pm.Normal("y", pm.math.log(pm.Normal("x")), 1.0, observed=np.zeros(1000))
    return model


N, PAIR = pm.Normal.dist, 1 - np.eye(2)
IMPROPER, ATOMS = r"x: an improper prior \(", "single values with positive probability"

PRIORS = [
    (
        lambda n: pm.ICAR(n, W=np.eye(3, dtype=int)[::-1] - np.diag([0, 1, 0])),
        r"x: the graph of this pm.ICAR has 2 parts.*The regions are \[0, 2\]; \[1\]\. Give each",
    ),
    (
        lambda n: pm.Mixture(n, [0.5, 0.5], [pm.ICAR.dist(PAIR, sigma=s) for s in (1, 2)]),
        "x: PyMC's density of a pm.ICAR within another distribution",
    ),
    (lambda n: pm.GaussianRandomWalk(n, init_dist=pm.Flat.dist(), steps=2), IMPROPER + "Flat"),
    (lambda n: pm.Truncated(n, pm.Flat.dist(), lower=0, upper=1), IMPROPER + "Flat"),
    (lambda n: pm.CustomDist(n, dist=lambda size: pm.HalfFlat.dist(size=size)), "HalfFlat"),
    (lambda n: pm.CustomDist(n, logp=lambda v: -(v**2)), "improper prior the marginal"),
    (lambda n: pm.Censored(n, N(), lower=0, upper=None), f"x: .*Censored.*{ATOMS}"),
    (lambda n: pm.Mixture(n, [0.5, 0.5], [pm.DiracDelta.dist(0.0), N()]), f"Dirac.*{ATOMS}"),
    (lambda n: pm.HurdleGamma(n, psi=0.5, alpha=1, beta=1), f"x: .*DiracDelta.*{ATOMS}"),
    (
        lambda n: pm.Censored(
            n, N(), lower=0, upper=None, observed=np.ma.masked_invalid([0.0, np.nan])
        ),
        f"x_unobserved: .*Censored.*{ATOMS}.*drop them",
    ),
    (
        lambda n: pm.CustomDist(
            n,
            logp=lambda v: pm.logp(pm.Normal.dist(), v),
            random=lambda rng=None, size=None: np.maximum(0, rng.normal(size=size)),
        ),
        f"x: its prior draws repeat a value.*{ATOMS}",
    ),
    (
        lambda n: pm.Mixture(
            n, [0.5, 0.5], [pm.CAR.dist(np.zeros(2), PAIR, alpha, 1.0) for alpha in (0.1, 0.9)]
        ),
        "x: PyMC's density of a pm.CAR within another distribution",
    ),
    (undefined, "^x: it is NaN in some prior draws, because a parameter"),
]

BAD = [
    *((one(build), {"simulate": "prior"}, ValueError, message) for build, message in PRIORS),
    (undefined_data, {"simulate": "prior"}, ValueError, "^y: it is NaN in .*a constant is NaN"),
    (unobserved, {}, ValueError, "it has no observed variables"),
    (flat, {}, ValueError, r"slope: an improper prior \(Flat\).*If all .* have slope"),
    (minibatch, {}, ValueError, "y: with minibatches"),
    (too_few_data, {}, ValueError, r"^y: it cannot be evaluated .* shapes \[\(4,\), \(5,\)\]"),
    (too_few_data, {"simulate": None}, ValueError, "^y: it cannot be evaluated"),
    (groups_from_one, {}, ValueError, r"^y: .*\(index 2 is out of bounds.*indices start at 0"),
    (groups_from_one, {"simulate": None}, ValueError, "^y: .*index 2 is out of bounds"),
    (potential_beyond_the_end, {"simulate": None}, ValueError, "^pull: .*index 2 is out of bounds"),
    (parent_beyond_the_end, {}, ValueError, "^x: it cannot be drawn .*index 2 is out of bounds"),
    (masked_vectors, {}, ValueError, "^y: .*missing values of a multivariate"),
    (simulator, {"simulate": None}, ValueError, "sim: pm.Simulator has no likelihood"),
    (trees, {}, ValueError, "^mu: the trees of pymc_bart.BART have no log density"),
    (custom_without_draws, {"simulate": "prior"}, ValueError, "likely: its distribution has a log"),
    *(
        (lambda: hard_constraint()[0], options, ValueError, "the Potential constraint.*simulate=")
        for options in (
            {"simulate": "prior"},
            {"simulate": Fitted()},
            {"target_gap": 0.1},
            {"real_data": False},
        )
    ),
    (normal_model, {"schedule": [0, 0.5, 0.4, 1]}, ValueError, "schedule: unknown name"),
    (normal_model, {"temperatures": [0, 0.5, 0.3, 1]}, ValueError, "^temperatures: must incre"),
    (normal_model, {"temperatures": 0}, ValueError, "temperatures: must be at least 1"),
    *(
        (normal_model, {"temperatures": ladder}, ValueError, "temperatures: a ladder is a sequence")
        for ladder in ([30, 10], [10, 10], [10, 20.5], [10, np.nan], [10, np.inf], [[10, 20]])
    ),
    (normal_model, {"temperatures": [10, 10**12]}, ValueError, "temperatures=1000000000000: this"),
    (normal_model, {"temperatures": []}, ValueError, "^temperatures: need at least the va"),
    (normal_model, {"schedule": "cosine"}, ValueError, "'cosine' is none of .*'adaptive'"),
    (normal_model, {"simulate": "likelihood"}, ValueError, "'likelihood' is none of"),
    (normal_model, {"simulate": Given({"x": 0.0}, {"y": np.nan})}, ValueError, "y must be numbers"),
    (count_model, {"simulate": Given({"p": 0.5}, {"y": 2.7})}, ValueError, "y must be numbers of"),
    (negative_scale, {"simulate": "prior"}, ValueError, r"^y: it cannot be drawn.*\(scale < 0\)"),
    (normal_model, {"temperatures": "many"}, ValueError, "temperatures: must be a whole number"),
    (normal_model, {"backend": "torch"}, ValueError, "backend: 'torch' is none of 'numba'"),
    (normal_model, {"compile_kwargs": 3}, TypeError, "compile_kwargs: a dict is needed"),
    (normal_model, {"compile_kwargs": {"foo": 1}}, ValueError, "compile_kwargs: 'foo' is none of"),
    (normal_model, {"step": [], "simulate": None}, ValueError, "step: the sequence is empty"),
    (lambda: "x", {}, TypeError, "model: a pymc.Model is needed"),
    (normal_model, {"simulate": ({"x": 0}, {"y": 0})}, ValueError, r"is none of .*, Given\(point"),
    (normal_model, {"simulate": None, "real_data": False}, ValueError, "nothing left to run"),
    (
        normal_model,
        {"simulate": Fitted(["z"])},
        ValueError,
        r"names: \['z'\] are not among.*\['x'\]",
    ),
    (normal_model, {"simulate": Fitted([])}, ValueError, "names: give at least one variable"),
    (normal_model, {"simulate": Fitted(idata=fit(2, 0))}, ValueError, "its x has no draws"),
    (
        normal_model,
        {"simulate": Fitted(idata=fit(1, 5, 3))},
        ValueError,
        r"shape \(3,\), the model's",
    ),
    (normal_model, {"simulate": Fitted(idata=fit(1, 5, name="z"))}, ValueError, r"lacks .*\['x'\]"),
    (normal_model, {"posterior": xr.Dataset()}, ValueError, "posterior: .* a group 'posterior'"),
    (
        normal_model,
        {"posterior": fit(1, 5), "real_data": False},
        ValueError,
        "posterior: its runs are on the real data",
    ),
    (normal_model, {"posterior": fit(1, 5, name="z")}, ValueError, r"posterior: .* lacks .*'x'"),
    (normal_model, {"posterior": fit(1, 5, 3)}, ValueError, r"posterior: its x has the shape \(3,"),
    (
        normal_model,
        {"posterior": fit(1, 5) * np.nan},
        ValueError,
        "values of its x are NaN or infinite",
    ),
    (count_model, {"posterior": fit(1, 5, name="p")}, ValueError, "posterior: every draw of p is"),
    (
        normal_model,
        {"posterior": fit(1, 1), "chains": 8},
        ValueError,
        "posterior: 1 draws for 8 ch",
    ),
    *(
        (
            normal_model,
            {"posterior": fit(1, 5, y=y)},
            ValueError,
            "^posterior: .* other data: its y",
        )
        for y in (0.6, ("unit", [0.5, 0.5]))
    ),
    (
        normal_model,
        {"posterior": fit(1, 5, z=0.5)},
        ValueError,
        r"^posterior: its observed_data are \['z'\], and the model observes \['y'\]",
    ),
    *(
        (without_data(observed), {"simulate": simulate}, ValueError, "^y: all of its data are miss")
        for observed in (np.ma.masked_all(3), np.full(2, np.nan), np.zeros(0))
        for simulate in (None, "prior")
    ),
    (normal_model, {"store": 3}, TypeError, "^store: the path of a directory is needed, got 3"),
    (
        normal_model,
        {"executor": object()},
        TypeError,
        "^executor: a concurrent.futures.Executor is",
    ),
    (
        normal_model,
        {"executor": Closed(), "cores": None},
        ValueError,
        "^executor: it takes no tasks .*no workers",
    ),
    (
        normal_model,
        {"step": pm.sample},
        TypeError,
        "^step: expected a name, a PyMC step method cla",
    ),
    (
        normal_model,
        {"step": pm.Normal},
        TypeError,
        "^step: expected a name, a PyMC step method cla",
    ),
    (
        normal_model,
        {"step": [pm.NUTS, pm.draw]},
        TypeError,
        "^step: expected a name, a PyMC step m",
    ),
    (impossible_at_zero, {"posterior": fit(1, 5)}, ValueError, "the model and its data are imposs"),
    (normal_model, {"chains": 0}, ValueError, "chains: must be a whole number of at least 2"),
    (normal_model, {"chains": 2.5}, ValueError, "chains: must be a whole number"),
    (normal_model, {"chains": 1}, ValueError, "chains: must be a whole number of at least 2"),
    (normal_model, {"chains": True}, ValueError, "chains: must be a whole number"),
    (normal_model, {"cores": 0}, ValueError, "cores: must be"),
    (normal_model, {"cores": 10**5}, ValueError, "cores: 100000 are far more than the"),
    (normal_model, {"chains": 10**9}, ValueError, r"chains=1000000000, .* GiB of memory, and the"),
    (normal_model, {"temperatures": 10**12}, ValueError, "temperatures=1000000000000: this takes"),
    (normal_model, {"particles": 10**9}, ValueError, "particles=1000000000: this takes at least"),
    (normal_model, {"particles": 0}, ValueError, "^particles: must be a whole number of at least"),
    (normal_model, {"simulate": FromPrior(10**9)}, ValueError, "datasets=1000000000: this takes"),
    (normal_model, {"simulate": bdmc.Matched(10**10)}, ValueError, "draws=10000000000: this takes"),
    (normal_model, {"temperatures": [0, 0.5j, 1]}, ValueError, "inverse temperatures are real"),
    (normal_model, {"temperatures": ["0", "1"]}, ValueError, "inverse temperatures are real"),
    (normal_model, {"temperatures": 3j}, ValueError, "temperatures: must be a whole number"),
    (normal_model, {"random_seed": "a"}, TypeError, "random_seed: .* got 'a'"),
    (normal_model, {"random_seed": -1}, TypeError, "random_seed: .* got -1"),
    (normal_model, {"random_seed": True}, TypeError, "random_seed: .* got True"),
    (normal_model, {"random_seed": [1, 2.5]}, TypeError, r"random_seed: .* got \[1, 2.5\]"),
    (normal_model, {"random_seed": (i for i in [1])}, TypeError, "random_seed: .* got <generator"),
    (normal_model, {"progressbar": "no"}, TypeError, "progressbar: must be True or False"),
    (normal_model, {"real_data": "no"}, TypeError, "real_data: must be True or False"),
    (normal_model, {"target_gap": -1}, ValueError, "target_gap: must be a positive number"),
    (normal_model, {"target_gap": np.nan}, ValueError, "target_gap: must be a positive number"),
    (normal_model, {"target_gap": np.inf}, ValueError, "target_gap: must be a positive number"),
    (normal_model, {"max_time": "long"}, ValueError, "max_time: must be a positive number"),
    (lambda: named(free="chain"), {}, ValueError, "^chain: .*'posterior'; rename the variable"),
    (lambda: named(free="draw"), {"simulate": None}, ValueError, "^draw: the result needs"),
    (lambda: named(free="bdmc_weight"), {}, ValueError, "^bdmc_weight: the result needs"),
    (lambda: named(free="dataset"), {}, ValueError, "^dataset: .*'simulated'; rename the variable"),
    (lambda: named(observed="dataset"), {}, ValueError, "^dataset: .*; rename the variable"),
    (lambda: named(dim="dataset"), {}, ValueError, "^dataset: .*; rename the dimension"),
    (lambda: named(dim="a/b"), {}, ValueError, "^a/b: .* cannot contain '/'"),
    (lambda: named(dim="day", coord=DATES), {}, ValueError, "coords: netCDF .* 'day'; use numbers"),
    (lambda: named(dim="k", coord=(1j, 2)), {}, ValueError, "coords: netCDF .* 'k'; use numbers"),
    (lambda: named(dim="k", coord=((0, 1), (0, 2))), {}, ValueError, "coords: netCDF .* 'k'"),
    (mixed_model, {"step": pm.NUTS, "simulate": None}, ValueError, "NUTS cannot sample z"),
    (normal_model, {"path": fit(1, 5)}, ValueError, "path: a DataTree is none .*FittedPath"),
    (normal_model, {"step": "gibbs", "simulate": None}, ValueError, "step: unknown name 'gibbs'"),
    (normal_model, {"step": 3, "simulate": None}, TypeError, "expected a name, a PyMC step method"),
    (
        mixed_model,
        {"simulate": Fitted(at="mean")},
        ValueError,
        r"discrete \['z'\] cannot be held at a mean",
    ),
    (mixed_model, {"step": pm.NUTS}, ValueError, "NUTS cannot sample z"),
    (
        custom_without_draws,
        {"simulate": Fitted()},
        ValueError,
        "likely: its distribution has a log",
    ),
]

WITHOUT_EFFECT = [
    ({"max_time": 5.0}, "max_time: it limits the rounds until target_gap"),
    ({"max_temperatures": 50}, "max_temperatures: it limits the rounds until target_gap"),
    ({"target_gap": 1.0, "simulate": None}, "target_gap: a gap needs simulated data"),
    *(
        ({name: 5, "temperatures": [10, 20]}, f"{name}: every number in temperatures is run")
        for name in ("target_gap", "max_temperatures", "max_time")
    ),
    ({"schedule": "linear", "temperatures": [0, 1]}, "schedule: 'linear' has no effect"),
    ({"schedule": bdmc.schedules.linear(7)}, "temperatures: the Schedule has 7 already"),
    ({"compile_kwargs": {"profile": False}}, "compile_kwargs: the compiled chains have no use"),
]

BAD_SIMULATIONS = [
    (FromPrior, {"datasets": 0}, ValueError, "datasets: must be"),
    (Fitted, {"datasets": 0}, ValueError, "datasets: must be"),
    (Fitted, {"burn_in": -1}, ValueError, "burn_in: must be"),
    (Fitted, {"at": "mode"}, ValueError, "at: 'mode' is none of 'draw', 'mean'"),
    (Fitted, {"idata": xr.Dataset()}, ValueError, "with a group 'posterior'"),
    (Fitted, {"idata": fit(2)}, ValueError, "where 'draw' and, for several chains, 'chain'"),
    (bdmc.Matched, {"draws": 0}, ValueError, "draws: must be"),
    (bdmc.Matched, {"datasets": 0}, ValueError, "datasets: must be"),
    (bdmc.Matched, {"distance": 2.0}, TypeError, "distance: must be a function of two mappings"),
    (Given, {"point": 3, "data": {}}, TypeError, "point: a mapping by variable name"),
    (Given, {"point": {}, "data": {}, "exact": 1}, TypeError, "exact: must be True or False"),
]


# PyMC's Simulator uses PyTensor calls that are to change.
@pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop hiding:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning")
@pytest.mark.parametrize(("make", "options", "error", "message"), BAD)
def test_bad_input_is_refused_before_any_sampling(make, options, error, message, monkeypatch):
    def sampled(self, tasks, places=None):
        raise AssertionError("sampling began")

    monkeypatch.setattr(Workers, "run", sampled)
    monkeypatch.setattr(pm, "sample", sampled)
    with pytest.raises(error, match=message):
        pm.sample_bdmc(make(), **{**SMALL, **options})


def nuts():
    with normal_model():
        return pm.NUTS()


AT_ONCE = [
    (unobserved, {}, ValueError, "it has no observed variables"),
    (flat, {}, ValueError, "slope: an improper prior"),
    (lambda: fit(1, 5), {}, TypeError, "type DataTree. To judge draws, pass the model"),
    (lambda: 1000, {}, TypeError, "model: a pymc.Model is needed, got .* type int"),
    (normal_model, {"draws": 1000}, TypeError, "^draws: .*pass chains.* or target_error"),
    (normal_model, {"tune": 1000}, TypeError, "^tune: .*Pilots tune.*pass temperatures"),
    (normal_model, {"target_accept": 0.9}, TypeError, "^target_accept: .*partial.pm.NUTS"),
    (normal_model, {"nuts_sampler": "nutpie"}, TypeError, "^nuts_sampler: .*posterior=idata"),
    (normal_model, {"return_inferencedata": True}, TypeError, "^return_infere.*always a DataTree"),
    (normal_model, {"initvals": {}}, TypeError, "^initvals: .*Runs start at draws"),
    (normal_model, {"temperature": 9}, TypeError, "^temperature: .*Did you mean temperatures.$"),
    (normal_model, {"qqq": 9}, TypeError, "^qqq: .*See help"),
    (normal_model, {"step": nuts()}, TypeError, "^step: pass the class pm.NUTS, .*not an inst"),
    (normal_model, {"step": [pm.Slice, nuts()]}, TypeError, "^step: pass the class pm.NUTS"),
]


@pytest.mark.parametrize(("make", "options", "error", "message"), AT_ONCE)
def test_frequent_mistakes_are_refused_at_once(make, options, error, message, monkeypatch):
    """Before the call is checked as a whole, and so before compiling."""
    monkeypatch.delattr("pymc_bdmc.sampling.Options")
    with pytest.raises(error, match=message):
        pm.sample_bdmc(make(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": fit(1, 5, name="z")}, "^posterior: its posterior lacks the variables"),
        ({"posterior": fit(1, 5, 3)}, "^posterior: its x has the shape"),
        ({"step": "gibbs"}, "^step: unknown name 'gibbs'"),
        ({"step": pm.Normal}, "^step: expected a name"),
        ({"backend": "torch"}, "^backend: 'torch' is none of"),
    ],
)
def test_arguments_are_checked_before_anything_is_compiled(options, message, monkeypatch):
    def compiled(*args):
        raise AssertionError("compiling began")

    monkeypatch.setattr("pymc_bdmc.call.session.TemperedDensity", compiled)
    with pytest.raises((TypeError, ValueError), match=message):
        pm.sample_bdmc(normal_model(), **options)


def test_names_of_arguments_of_pymc_are_those_of_this_version():
    """Each has a remedy or is close to none, and no remedy is for an argument that is ours."""
    ours = inspect.signature(pm.sample_bdmc).parameters
    assert not set(REMEDIES) & set(ours)
    theirs = {
        *inspect.signature(pm.sample).parameters,
        *inspect.signature(pm.sample_smc).parameters,
    }
    unanswered = theirs - set(REMEDIES) - set(ours)
    assert unanswered == {
        "compute_convergence_checks", "discard_tuned_samples", "keep_warning_stat", "kernel_kwargs",
        "kwargs", "progressbar_theme",
    }  # fmt: skip


def test_names_may_be_in_capitals():
    options = {"step": "NUTS", "simulate": "Prior", "path": "PRIOR", "schedule": "Linear"}
    told = {name: value.lower() for name, value in options.items()}
    dt, same = (
        pm.sample_bdmc(normal_model(), random_seed=1, **SMALL, **each) for each in (options, told)
    )
    assert dt.attrs["step"] == "compiled NUTS(x)"
    xr.testing.assert_equal(dt["forward"]["log_weight"], same["forward"]["log_weight"])


@pytest.mark.parametrize(("options", "message"), WITHOUT_EFFECT)
def test_an_argument_without_effect_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        pm.sample_bdmc(normal_model(), **{**SMALL, **options})


def test_names_and_coordinates_that_are_in_nobodys_way(tmp_path):
    """Names that are taken in one group only, and values that netCDF can hold."""
    observed = named(observed="chain", dim="beta", coord=(1.5, 2))
    drawn = named(free="dataset", dim="day", coord=np.array(["2020", "2021"], "datetime64[D]"))
    for model, simulate in (
        (observed, "prior"),
        (drawn, None),
        (named(dim="k", coord=(1, "a")), None),
    ):
        dt = pm.sample_bdmc(model, simulate=simulate, random_seed=1, **SMALL)
        assert dt["posterior"].data_vars.keys() == {rv.name for rv in model.free_RVs}
        dt.to_netcdf(tmp_path / "run.nc")


def test_numbers_of_numpy_are_as_good():
    options = {"chains": np.int64(4), "temperatures": np.int32(10), "cores": np.uint8(1)}
    dt = pm.sample_bdmc(
        normal_model(), simulate=FromPrior(np.int64(1)), random_seed=np.uint32(3),
        progressbar=np.False_, real_data=np.True_, **options,
    )  # fmt: skip
    assert dt["forward"].sizes["chain"] == 4
    assert dt.attrs["random_seed"] == "3"


@pytest.mark.parametrize(("simulation", "options", "error", "message"), BAD_SIMULATIONS)
def test_bad_options_of_a_simulation_are_refused_where_it_is_made(
    simulation, options, error, message
):
    with pytest.raises(error, match=message):
        simulation(**options)


@pytest.mark.parametrize("step", [None, pm.Metropolis])
def test_impossible_data_are_named(step, monkeypatch):
    for module in ("density.tempered", "engines.problem"):
        monkeypatch.setattr(f"pymc_bdmc.{module}.MAX_PRIOR_DRAWS", 600)
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("mu", 2, 1), observed=[3, -1])
    with pytest.raises(ValueError, match=r"by y\[1\] = -1\. Check the data and the constants"):
        pm.sample_bdmc(model, step=step, simulate="prior", random_seed=1, **SMALL)


def test_nan_everywhere_names_the_variable():
    """Twin: NaN at most prior draws is left to the runs."""

    def density(shift):
        with pm.Model() as model:
            x = pm.Normal("x")
            pm.Normal("broken", pm.math.log(x + shift), 1.0, observed=0.0)
        return TemperedDensity(model)

    density(-1.0).check()
    with pytest.raises(ValueError, match=r"^broken: its log density is NaN"):
        density(np.nan).check()


def test_an_infinite_density_names_the_variable():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("broken", pm.math.switch(x < 0, np.inf, 0.0))
    with pytest.raises(FloatingPointError, match=r"log p of broken is \+inf"):
        pm.sample_bdmc(model, simulate=None, random_seed=1, **SMALL)
