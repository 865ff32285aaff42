"""What users have as an approximation is read right: draws, density, order of elements."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.blocking import DictToArrayBijection
from scipy import stats

from pymc_bdmc.base.types import stack
from pymc_bdmc.density.approximation import Approximation, make_approximation, places, ravel
from pymc_bdmc.density.draws import posterior_draws
from pymc_bdmc.density.graph import Layout
from pymc_bdmc.density.tempered import TemperedDensity
from tests.models import interpreted


@pytest.fixture(scope="module")
def model():
    """Names out of order, a matrix, transforms, one of which changes the shape."""
    with pm.Model() as model:
        effect = pm.Normal("effect", shape=3)
        scale = pm.Gamma("scale", 5, 2)
        share = pm.Dirichlet("share", 4 * np.ones(3))
        matrix = pm.Normal("matrix", shape=(2, 2))
        pm.Normal("y", scale * effect + matrix.sum() + share[0], 1.0, observed=[0.5, 1.0, 2.0])
    return model


@pytest.fixture(scope="module")
def layout(model):
    return Layout(TemperedDensity(model))


def rng():
    return np.random.default_rng(1)


NORMAL = stats.multivariate_normal(np.arange(10.0), np.diag(np.arange(1.0, 11)))


def test_elements_are_in_the_order_of_pymc(model, layout):
    point = {
        name: 10 * i + np.arange(np.size(value), dtype=float).reshape(np.shape(value))
        for i, (name, value) in enumerate(model.initial_point().items())
    }
    flat = DictToArrayBijection.map(point).data
    assert layout.size == 10
    many = {name: np.stack([value, value]) for name, value in point.items()}
    assert (ravel("draws", many, layout) == flat).all()
    for name, value in layout.unravel(flat[None]).items():
        assert (value[0] == point[name]).all()


@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_results_of_pm_fit(model, layout, method):
    """Draws and density are those of PyMC itself; with a permutation undone the wrong way not."""
    with interpreted():
        fitted = pm.fit(20, method=method, model=model, progressbar=False, random_seed=1)
        drawn = fitted.sample_dict_fn(2000, random_seed=1)
        group = fitted.groups[0]
        mean, covariance = group.mean.eval(), group.cov.eval()
    names = [name for name, *_ in group.ordering.values()]
    found = make_approximation(fitted, layout, 400, rng())
    order = places({name: np.prod(layout.shapes[name], dtype=int) for name in names}, layout)
    q = stats.multivariate_normal(mean[order], covariance[np.ix_(order, order)])
    assert np.allclose(found.log_density, q.logpdf(found.draws))
    assert np.allclose(found.log_q(found.draws[:5]), found.log_density[:5])
    scores = (found.draws.mean(axis=0) - mean[order]) / np.sqrt(np.diag(covariance)[order] / 400)
    assert np.abs(scores).max() < 5  # α = 6e-6 over ten elements
    theirs = ravel("draws", {k: np.asarray(v) for k, v in drawn.items()}, layout)
    assert np.abs((theirs.mean(axis=0) - q.mean) / np.sqrt(np.diag(q.cov) / 2000)).max() < 5


def test_pairs(layout):
    draws = NORMAL.rvs(50, random_state=1)
    by_name = layout.unravel(draws)
    as_dataset = xr.Dataset(
        {k: (("chain", "draw", *(f"{k}_{i}" for i in range(v.ndim - 1))), v[None])
         for k, v in by_name.items()}
    )  # fmt: skip
    pairs = [
        (draws, NORMAL.logpdf),
        (by_name, lambda points: NORMAL.logpdf(ravel("points", points, layout))),
        (as_dataset, NORMAL.logpdf(draws)),
    ]
    flat, named, known = (make_approximation(pair, layout, 10, rng()) for pair in pairs)
    for found in (flat, known, named):
        assert (found.draws == draws).all()
        assert np.allclose(found.log_density, NORMAL.logpdf(draws))
    assert known.log_q is None
    assert np.allclose(named.log_q(draws[:3]), flat.log_q(draws[:3]))


def test_what_cannot_be_used_is_named(model, layout):
    draws = NORMAL.rvs(50, random_state=1)
    log_q, named = NORMAL.logpdf(draws), layout.unravel(draws)
    lacking = {k: v for k, v in named.items() if k != "scale_log__"}
    scale = named["scale_log__"]
    posterior = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("draw", [0.0])})})
    with model:
        empirical = pm.Empirical(size=5)
    with pm.Model(), interpreted():
        pm.Normal("y", pm.Normal("z", shape=2), observed=[0.0, 1.0])
        fitted = pm.fit(5, progressbar=False, random_seed=1)
    shapes = r"shape \(10, 1\), and \(n, 10\) is needed.*effect \(3,\), scale_log__ \(\), sh"
    for approximation, message in [
        (stats.norm(), shapes),
        ((draws[:, 1:], log_q), r"shape \(50, 9\)"),
        ((draws, log_q[1:]), "log_q: 49 values for 50 draws"),
        ((draws, lambda theta: -0.5 * theta**2), "log_q: it gives 500 values for 50 draws"),
        ((draws, np.where(np.arange(50) < 1, np.nan, log_q)), "log_q: it is not finite"),
        ((np.where(draws > 5, np.inf, draws), log_q), "its effect is not finite in some"),
        ((lacking, log_q), r"draws: it lacks \['scale_log__'\]"),
        ((lacking | {"scale": scale}, log_q), "scale is on the model's own scale. Pass scale_log_"),
        ((named | {"w": scale}, log_q), r"has \['w'\] besides"),
        ((named | {"effect": named["effect"][:, :2]}, log_q), r"effect has the shape \(50, 2\)"),
        ((lacking | {"scale_log__": scale[1:]}, log_q), "differ in the number of draws"),
        ((named | {"scale_log__": scale * np.nan}, log_q), "draws: its scale_log__ is not finite"),
        (posterior, "a DataTree with draws without a density. Pass a pair"),
        (empirical, "Empirical, as SVGD returns it, is a set of points with"),
        (fitted, r"lacks .*'scale_log__', 'share_simplex__'.*another model"),
        ("advi", r"expected what pm.fit returns.* not str"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            make_approximation(approximation, layout, 10, rng())


def test_discrete_variables_take_whole_numbers():
    with pm.Model() as model:
        pm.Normal("y", pm.Poisson("k", 2.0), observed=1.0)
    layout = Layout(TemperedDensity(model))
    found = make_approximation((np.arange(4), np.zeros(4)), layout, 10, rng())
    assert layout.unravel(found.draws)["k"].dtype == np.dtype("int64")
    with pytest.raises(ValueError, match="k is discrete, and some of its draws are not integers"):
        make_approximation(stats.norm(), layout, 10, rng())


# What pymc_extras returns, by its own functions where it is installed.


def same_draws(found, tree, layout, density):
    """Whether draws have the means and deviations of those of pymc_extras; α = 6e-5 over all."""
    names = [rv.name for rv in density.model.free_RVs]
    posterior = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()})
    values = posterior_draws("tree", posterior, names, density.model)
    points = [
        density.unconstrain(dict(zip(names, v, strict=True))) for v in zip(*values, strict=True)
    ]
    theirs = ravel("tree", stack(points), layout)
    variances = [found.draws.var(axis=0), theirs.var(axis=0)]
    sizes = [len(found.draws), len(theirs)]
    shift = (found.draws.mean(axis=0) - theirs.mean(axis=0)) / np.sqrt(
        sum(v / n for v, n in zip(variances, sizes, strict=True))
    )
    ratio = 0.5 * np.log(variances[0] / variances[1]) / np.sqrt(sum(0.5 / n for n in sizes))
    return np.abs([shift, ratio]).max() < 4.8


@pytest.fixture(scope="module")
def extras():
    return pytest.importorskip("pymc_extras", reason="pymc_extras is not installed")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fit", ["fit_laplace", "fit_dadvi"])
def test_normals_in_a_tree(extras, model, layout, fit):
    density = TemperedDensity(model)
    size = {"draws": 2000} if fit == "fit_laplace" else {"n_draws": 2000}
    tree = getattr(extras.inference, fit)(model=model, progressbar=False, random_seed=1, **size)
    found = make_approximation(tree, layout, 2000, rng())
    assert same_draws(found, tree, layout, density)
    twin = Approximation(found.draws[:, ::-1], found.log_density, None)  # in another order
    assert not same_draws(twin, tree, layout, density)
    if fit == "fit_laplace":
        broken = tree.copy()
        broken["fit"]["covariance_matrix"] = -tree["fit"]["covariance_matrix"]
        with pytest.raises(ValueError, match="not positive definite"):
            make_approximation(broken, layout, 10, rng())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "guide", ["AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal"]
)
def test_guides_of_a_trainer(extras, model, layout, guide):
    from pymc_extras.inference.advi import autoguide, training

    trainer = training.Trainer(guide=getattr(autoguide, guide))
    with model:
        trainer.fit(500, random_seed=1)
        tree = trainer.sample_posterior(2000, random_seed=2)
    found = make_approximation(trainer, layout, 2000, rng())
    assert same_draws(found, tree, layout, TemperedDensity(model))
    with pytest.raises(ValueError, match="without a density"):
        make_approximation(tree, layout, 10, rng())
    wrong = dict(trainer.state.params)
    wrong.popitem()
    with pytest.raises(ValueError, match="not those of a normal guide"):
        make_approximation(SimpleNamespace(params=wrong), layout, 10, rng())


@pytest.mark.filterwarnings("ignore")
def test_draws_of_pathfinder_have_no_density(extras, model, layout):
    options = {"num_draws": 200, "num_draws_per_path": 200, "num_paths": 1, "random_seed": 1}
    tree = extras.fit_pathfinder(model=model, progressbar=False, parallel=False, **options)
    with pytest.raises(ValueError, match=r"draws of Pathfinder.*without a density"):
        make_approximation(tree, layout, 10, rng())
