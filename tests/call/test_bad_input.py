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

from pymc_bdmc import FittedPath, FromPrior, Given
from pymc_bdmc import FromHyperparameters as Fitted
from pymc_bdmc.base.arguments import REMEDIES
from pymc_bdmc.run.workers import Workers
from tests.call.test_sampling import QUICK, SMALL, normal_model
from tests.models import hard_constraint, rates

pytestmark = pytest.mark.usefixtures("quickly_compiled")
REAL, PRIOR = {"simulate": None}, {"simulate": "prior"}


def built(build):
    """A function that makes the model which this builds."""

    def make():
        with warnings.catch_warnings(), pm.Model() as model:
            warnings.simplefilter("ignore")
            build()
        return model

    return make


def with_prior(build):
    """A model whose variable ``x`` is built so, and data that depend on it."""
    return built(lambda: pm.Normal("likely", build("x").sum(), 1.0, observed=1.0))


def x():
    return pm.Normal("x")


def y(mean, observed=0.0, sd=1.0, **options):
    return pm.Normal("y", mean, sd, observed=observed, **options)


def pair(name, places):
    """Elements of a vector of two."""
    return pm.Normal(name, shape=2)[np.array(places)]


def named(free="x", observed="y", dim=None, coord=(0, 1)):
    """A model with these names."""
    with pm.Model(coords={} if dim is None else {dim: coord}) as model:
        x = pm.Normal(free, dims=dim) if dim else pm.Normal(free)
        pm.Normal(observed, x, observed=np.zeros(2) if dim else 0.0)
    return model


def trees():
    """With what pymc_bart puts into a model: an operation of a class made for each variable."""
    base = type("BARTRV", (RandomVariable,), {"__module__": "pymc_bart.bart", "rng_fn": None})
    op = type("BART_mu", (base,), {})("BART", signature="()->()", dtype="float64")
    with pm.Model() as model:
        pm.Normal("y", model.register_rv(op(0.0), "mu"), observed=0.5)
    return model


def fit(*shape, name="x", **observed):
    """A fit with draws of one variable, in a shape that begins with chain and draw."""
    dims = ["chain", "draw", "row"][: len(shape)]
    groups = {"posterior": xr.Dataset({name: (dims, np.zeros(shape))})}
    if observed:
        groups["observed_data"] = xr.Dataset(observed)
    return xr.DataTree.from_dict(groups)


class Closed(Executor):
    """Takes nothing, as one of which all workers are gone."""

    def submit(self, *args, **kwargs):
        raise RuntimeError("no workers")


def nuts():
    with normal_model():
        return pm.NUTS()


def in_n(value):
    return pm.logp(pm.Normal.dist(), value)


def log_of_a_parent():
    return pm.math.log(pm.Normal("parent")) * np.ones(1000)


def count_model():
    return rates()[0]


def rounded(rng=None, size=None):
    return np.maximum(0, rng.normal(size=size))


N, PAIR, HALVES, EYE = pm.Normal.dist, 1 - np.eye(2), [0.5, 0.5], np.eye(3)
IMPROPER, ATOMS = r"x: an improper prior \(", "single values with positive probability"
BEYOND = "index 2 is out of bounds"
PARTS = np.eye(3, dtype=int)[::-1] - np.diag([0, 1, 0])
CARS = [pm.CAR.dist(np.zeros(2), PAIR, alpha, 1.0) for alpha in (0.1, 0.9)]
SEEN = {"lower": 0, "upper": None, "observed": np.ma.masked_invalid([0.0, np.nan])}
GAPS, SLOPES = np.ma.masked_invalid([[1.0, np.nan, 0.5]]), np.ones((5, 3))
BATCH = pm.Minibatch(np.zeros(10), batch_size=2)
DATES = (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))

PRIORS = [
    (lambda n: pm.ICAR(n, W=PARTS), r"this pm.ICAR has 2 parts.*The regions are \[0, 2\]; \[1\]"),
    (lambda n: pm.Mixture(n, HALVES, [pm.ICAR.dist(PAIR)] * 2), "x: .*pm.ICAR within another"),
    (lambda n: pm.Mixture(n, HALVES, CARS), "x: PyMC's density of a pm.CAR within another distrib"),
    (lambda n: pm.GaussianRandomWalk(n, init_dist=pm.Flat.dist(), steps=2), IMPROPER + "Flat"),
    (lambda n: pm.CustomDist(n, logp=lambda v: -(v**2)), "improper prior the marginal"),
    (lambda n: pm.Censored(n, N(), lower=0, upper=None), f"x: .*Censored.*{ATOMS}"),
    (lambda n: pm.Censored(n, N(), **SEEN), f"x_unobserved: .*Censored.*{ATOMS}.*drop them"),
    (lambda n: pm.Normal(n, log_of_a_parent()), "^x: it is NaN in some prior draws, because a par"),
]
LIKELIHOODS = [
    (
        lambda: y(pm.CustomDist("x", logp=in_n, random=rounded)),
        PRIOR,
        f"x: its prior draws repeat.*{ATOMS}",
    ),
    (lambda: y(pm.math.log(x()), np.zeros(1000)), PRIOR, "^y: it is NaN in .*a constant is NaN"),
    (lambda: y(pm.Flat("slope")), {}, r"slope: an improper prior \(Flat\).*If all .* have slope"),
    (lambda: y(SLOPES @ pm.Normal("b", shape=3), np.zeros(4)), REAL, r"^y: .* \[\(4,\), \(5,\)\]"),
    (lambda: pm.Potential("pull", -(pair("x", [0, 2]) ** 2).sum()), REAL, f"^pull: .*{BEYOND}"),
    (lambda: y(pm.Normal("x", pair("m", [2])), [0.0]), {}, f"^x: it cannot be drawn .*{BEYOND}"),
    (lambda: y(pair("effect", [1, 2]), np.zeros(2)), {}, rf"^y: .*\({BEYOND}.*indices start at 0"),
    (
        lambda: pm.MvNormal("y", x() * np.ones(3), EYE, observed=GAPS),
        {},
        "^y: .*missing values of a multivariate",
    ),
    (
        lambda: pm.Simulator("sim", lambda rng, mu, size: mu, x(), observed=[0.0]),
        REAL,
        "sim: pm.Simulator has no likelihood",
    ),
    (
        lambda: pm.CustomDist("likely", x(), logp=lambda v, mu: v - mu, observed=np.ones(2)),
        PRIOR,
        "likely: its distribution has a log",
    ),
    (lambda: y(0.0, sd=pm.Normal("scale")), PRIOR, r"^y: it cannot be drawn.*\(scale < 0\)"),
    (lambda: y(pm.math.log(x() + np.nan)), REAL, r"^y: its log density is NaN"),
    (lambda: y(x(), BATCH, total_size=10), {}, "y: with minibatches"),
    (lambda: y(x(), np.ma.masked_all(3)), PRIOR, "^y: all of its data are miss"),
    (lambda: y(x(), np.zeros(0)), REAL, "^y: all of its data are miss"),
]
mixed_model = built(lambda: y(x() + pm.Categorical("z", [0.2, 0.3, 0.5])))
MODELS = [
    *((with_prior(build), PRIOR, message) for build, message in PRIORS),
    *((built(build), options, message) for build, options, message in LIKELIHOODS),
    (trees, {}, "^mu: the trees of pymc_bart.BART have no log density"),
    *(
        (lambda: hard_constraint()[0], options, "the Potential constraint.*simulate=")
        for options in (PRIOR, {"target_gap": 0.1})
    ),
    (
        lambda: hard_constraint()[0],
        REAL | {"posterior": fit(1, 5)},
        "the model and its data are imposs",
    ),
    (
        count_model,
        {"simulate": Given({"rate": 0.5}, {"y": np.full(4, 2.7)})},
        "y must be numbers of",
    ),
    (count_model, {"posterior": fit(1, 5, name="rate")}, "posterior: every draw of rate is"),
    (mixed_model, {"simulate": Fitted(at="mean")}, r"discrete \['z'\] cannot be held at a mean"),
    (mixed_model, {"step": pm.NUTS}, "NUTS cannot sample z"),
    (normal_model, {"particles": 10**9}, "particles=1000000000: this takes at least"),
    (normal_model, {"simulate": Fitted(["z"])}, r"names: \['z'\] are not among.*\['x'\]"),
    (normal_model, {"simulate": Fitted([])}, "names: give at least one variable"),
    (normal_model, {"simulate": Fitted(idata=fit(2, 0))}, "its x has no draws"),
    (normal_model, {"posterior": fit(1, 1), "chains": 8}, "posterior: 1 draws for 8 ch"),
    (normal_model, {"posterior": fit(1, 5, y=0.6)}, "^posterior: .* other data: its y"),
    (normal_model, {"posterior": fit(1, 5, z=0.5)}, r"^posterior: its observed_data are \['z'\],"),
    (
        normal_model,
        {"compile_kwargs": {"profile": False}},
        "compile_kwargs: the compiled chains ha",
    ),
]

ARGUMENTS = [
    ({"schedule": "cosine"}, "'cosine' is none of .*'adaptive'"),
    ({"temperatures": [0, 0.5, 0.3, 1]}, "^temperatures: must incre"),
    ({"temperatures": 0}, "temperatures: must be at least 1"),
    ({"temperatures": []}, "^temperatures: need at least the va"),
    ({"temperatures": [0, 0.5j, 1]}, "inverse temperatures are real"),
    *(
        ({"temperatures": ladder}, "temperatures: a ladder is a sequence")
        for ladder in ([10, 10], [10, 20.5])
    ),
    ({"temperatures": [10, 10**12]}, "temperatures=1000000000000: this"),
    ({"chains": 10**9}, r"chains=1000000000, .* GiB of memory, and the"),
    ({"simulate": FromPrior(10**9)}, "datasets=1000000000: this takes"),
    *(({"chains": n}, "chains: must be a whole number of at least 2") for n in (1, True)),
    ({"particles": 0}, "^particles: must be a whole number of at least"),
    ({"cores": 10**5}, "cores: 100000 are far more than the"),
    ({"simulate": ({"x": 0}, {"y": 0})}, r"is none of .*, Given\(point"),
    ({"simulate": None, "real_data": False}, "nothing left to run"),
    ({"posterior": xr.Dataset()}, "posterior: .* a group 'posterior'"),
    ({"posterior": fit(1, 5), "real_data": False}, "posterior: its runs are on the real data"),
    ({"posterior": fit(1, 5, name="z")}, r"^posterior: its posterior lacks .*'x'"),
    ({"posterior": fit(1, 5, 3)}, r"posterior: its x has the shape \(3,"),
    ({"posterior": fit(1, 5) * np.nan}, "values of its x are NaN or infinite"),
    ({"path": fit(1, 5)}, "path: a DataTree is none .*FittedPath"),
    ({"path": FittedPath(latent="x")}, "latent variables are named for runs that need no anneal"),
    ({"target_error": 0.1}, "target_error: it chooses the number of runs"),
    ({"target_error": 0.1, "chains": None, "real_data": False}, "leave real_data=False out"),
    ({"store": 3}, "^store: the path of a directory is needed, got 3"),
    ({"executor": object()}, "^executor: a concurrent.futures.Executor is"),
    ({"executor": Closed(), "cores": None}, "^executor: it takes no tasks .*no workers"),
    ({"executor": Closed(), "cores": 2}, "cores: the executor has its own workers"),
    ({"step": [pm.NUTS, pm.draw]}, "^step: expected a name, a PyMC step method cla"),
    ({"step": "gibbs"}, "^step: 'gibbs' is none of"),
    ({"step": []}, "step: the sequence is empty"),
    ({"backend": "torch"}, "^backend: 'torch' is none of 'numba'"),
    ({"compile_kwargs": 3}, "compile_kwargs: a dict is needed"),
    ({"compile_kwargs": {"foo": 1}}, "compile_kwargs: 'foo' is none of"),
    *(({"random_seed": seed}, "random_seed: .* got ") for seed in ("a", True, [1, 2.5])),
    ({"progressbar": "no"}, "progressbar: 'no' is none of 'combined', .* True and False"),
    ({"progressbar": 1}, "progressbar: must be True or False"),
    ({"quiet": "yes"}, "quiet: must be True or False"),
    ({"target_gap": np.nan}, "target_gap: must be a positive number"),
    ({"target_gap": 1.0, "simulate": None}, "target_gap: a gap needs simulated data"),
    ({"max_time": 5.0}, "max_time: it limits the rounds until target_gap"),
    ({"target_gap": 1.0, "max_temperatures": 5}, "the first round has 10 temperatures already"),
    ({"target_gap": 5, "temperatures": [10, 20]}, "target_gap: every number in temperatures is"),
    ({"callback": "print"}, "callback: a function of the result so far is needed"),
    ({"draws": 1000}, "^draws: .*pass chains.* or target_error"),
    ({"nuts_sampler": "nutpie"}, "^nuts_sampler: .*posterior=idata"),
    ({"temperature": 9}, "^temperature: .*Did you mean temperatures.$"),
    ({"qqq": 9}, "^qqq: .*See help"),
    ({"step": [pm.Slice, nuts()]}, "^step: pass the class pm.NUTS"),
]
BEFORE_COMPILING = [
    *((normal_model, *each) for each in ARGUMENTS),
    (built(x), {}, "it has no observed variables"),
    (lambda: fit(1, 5), {}, "type DataTree. To judge draws, pass the model"),
    (lambda: 1000, {}, "model: a pymc.Model is needed, got .* type int"),
    (lambda: named(free="chain"), {}, "^chain: .*'posterior'; rename the variable"),
    (lambda: named(free="bdmc_weight"), REAL, "^bdmc_weight: the result needs"),
    (lambda: named(observed="dataset"), {}, "^dataset: .*'simulated'; rename the variable"),
    (lambda: named(dim="dataset"), {}, "^dataset: .*; rename the dimension"),
    (lambda: named(dim="a/b"), {}, "^a/b: .* cannot contain '/'"),
    *(
        (lambda coord=coord: named(dim="k", coord=coord), {}, "coords: netCDF .* 'k'; use numbers")
        for coord in (DATES, (1j, 2))
    ),
]
SIMULATIONS = [
    (FromPrior, {"datasets": 0}, "datasets: must be"),
    (Fitted, {"burn_in": -1}, "burn_in: must be"),
    (Fitted, {"at": "mode"}, "at: 'mode' is none of 'draw', 'mean'"),
    (Fitted, {"idata": fit(2)}, "where 'draw' and, for several chains, 'chain'"),
    (FittedPath, {"latent": "x", "degrees_of_freedom": 5}, "leave them out, or latent"),
    (Given, {"point": 3, "data": {}}, "point: a mapping by variable name"),
    (Given, {"point": {}, "data": {}, "exact": 1}, "exact: must be True or False"),
]


def refused(make, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        pm.sample_bdmc(make(), **{**SMALL, **options})


# PyMC's Simulator uses PyTensor calls that are to change.
@pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop hiding:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning")
@pytest.mark.parametrize(("make", "options", "message"), MODELS)
def test_models_are_refused_before_any_sampling(make, options, message, monkeypatch):
    monkeypatch.setattr(Workers, "run", None)
    monkeypatch.setattr(pm, "sample", None)
    refused(make, options, message)


def test_arguments_and_names_are_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setattr("pymc_bdmc.call.session.TemperedDensity", None)
    for each in BEFORE_COMPILING:
        refused(*each)


@pytest.mark.parametrize(("simulation", "options", "message"), SIMULATIONS)
def test_options_of_a_simulation_are_refused_where_it_is_made(simulation, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        simulation(**options)


def test_names_of_arguments_of_pymc_are_those_of_this_version():
    """Each has a remedy or is close to none, and no remedy is for an argument that is ours."""
    ours = set(inspect.signature(pm.sample_bdmc).parameters)
    assert not set(REMEDIES) & ours
    theirs = {
        *inspect.signature(pm.sample).parameters,
        *inspect.signature(pm.sample_smc).parameters,
    }
    without = "compute_convergence_checks discard_tuned_samples keep_warning_stat kernel_kwargs"
    assert theirs - set(REMEDIES) - ours == {*without.split(), "kwargs", "progressbar_theme"}


def test_names_may_be_in_capitals_and_numbers_of_numpy():
    names = {"step": "HMC", "simulate": "Prior", "path": "PRIOR", "schedule": "Linear"}
    options = SMALL | {"random_seed": np.uint32(1), "chains": np.int64(4), "cores": np.uint8(1)}
    dt = pm.sample_bdmc(normal_model(), **names, **options | {"progressbar": np.False_})
    told = {name: value.lower() for name, value in names.items()}
    same = pm.sample_bdmc(normal_model(), **SMALL, random_seed=1, **told)
    assert dt.attrs["random_seed"] == "1"
    xr.testing.assert_equal(dt["forward"]["log_weight"], same["forward"]["log_weight"])


def test_names_and_coordinates_that_are_in_nobodys_way(tmp_path):
    """Names that are taken in one group only, and values that netCDF can hold."""
    days = np.array(["2020", "2021"], "datetime64[D]")
    for model, simulate in (
        (named(free="weight", observed="chain", dim="beta", coord=(1.5, "a")), FromPrior(1)),
        (named(free="dataset", dim="day", coord=days), None),
    ):
        dt = pm.sample_bdmc(model, **QUICK | {"simulate": simulate})
        assert dt["posterior"].data_vars.keys() == {rv.name for rv in model.free_RVs}
        dt.to_netcdf(tmp_path / "run.nc")
    assert dt["particles"]["bdmc_weight"].sum() == pytest.approx(1)


@pytest.mark.parametrize("step", [None, pm.Metropolis])
def test_impossible_data_are_named(step, monkeypatch):
    for module in ("density.tempered", "engines.problem"):
        monkeypatch.setattr(f"pymc_bdmc.{module}.MAX_PRIOR_DRAWS", 600)
    model, *_ = rates((3, -1, 0, 2))
    with pytest.raises(ValueError, match=r"by y\[1\] = -1\. Check the data and the constants"):
        pm.sample_bdmc(model, step=step, simulate="prior", random_seed=1, **SMALL)


def test_an_infinite_density_names_the_variable_to_step_methods():
    """They would stay there; compiled chains reject it."""
    with pm.Model() as model:
        pm.Potential("broken", pm.math.switch(x() < 0, np.inf, 0.0))
    with pytest.raises(FloatingPointError, match=r"log p of broken is \+inf"):
        pm.sample_bdmc(model, step=pm.Metropolis, **QUICK | {"simulate": None})
