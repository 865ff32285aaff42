"""A model without free variables has its log density as log ML, and is compared with others."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytest
from scipy import sparse, stats

import pymc_bdmc as bdmc
from tests.models import SIGMAS

Y = np.array([0.3, 1.2, -0.4, 0.1])
OPTIONS = {"random_seed": 1, "cores": 1, "progressbar": False}


def null():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=Y)
    return model


def alternative():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 2), 1.0, observed=Y)
    return model


LOG_NULL = stats.norm.logpdf(Y).sum()
LOG_ALTERNATIVE = stats.multivariate_normal(np.zeros(4), np.eye(4) + 4).logpdf(Y)


def test_its_log_ml_is_the_log_density():
    dt = pm.sample_bdmc(null())
    found = bdmc.log_ml(dt)
    assert found.value == pytest.approx(LOG_NULL)
    assert (found.error, found.valid) == (0, True)
    assert found.certified_lower == found.certified_upper == found.value
    assert repr(found) == f"Log ML is {LOG_NULL:.4f}, the log density of the data."
    assert dt.attrs["log_ml"] == found.value
    assert bdmc.diagnose(dt) == []
    assert bdmc.verdict(dt).text == repr(found)
    assert "bidirectional" not in bdmc.report(dt)


def test_its_bayes_factor_has_the_error_of_the_other_model():
    """Within 4 standard errors, α = 6e-5; the twin is that of a standard deviation of 2."""
    dt, other = pm.sample_bdmc(null()), pm.sample_bdmc(alternative(), simulate=None, **OPTIONS)
    found = bdmc.bayes_factor(dt, other)
    assert found.error == bdmc.log_ml(other).error
    assert abs(found.value - (LOG_NULL - LOG_ALTERNATIVE)) < SIGMAS * found.error
    wrong = stats.norm(0, 2).logpdf(Y).sum() - LOG_ALTERNATIVE
    assert abs(found.value - wrong) > SIGMAS * found.error
    table = bdmc.compare({"null": dt, "alternative": other})
    assert table.loc["alternative", "log_bayes_factor"] == pytest.approx(-found.value)


def test_many_looks_end_at_the_better_model():
    """`pm.do` makes the null model of a larger one."""
    models = {"null": pm.do(alternative(), {"mean": 0.0}), "alternative": alternative()}
    found = bdmc.compare_models(models, **OPTIONS)
    assert (found.best, found.known) == ("null", True)
    assert found.table.loc["null", "error"] == 0


def test_densities_are_corrected_and_labels_are_taken_off():
    weights = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    with pm.Model(coords={"row": range(4)}) as model:
        pm.CAR("field", np.zeros(4), sparse.csr_matrix(weights), 0.5, 1.0, observed=Y)
        pmd.Normal("y", 0.0, 1.0, observed=pmd.as_xtensor(Y, dims="row"))
    precision = np.diag(weights.sum(axis=0)) - 0.5 * weights
    field = stats.multivariate_normal(np.zeros(4), np.linalg.inv(precision)).logpdf(Y)
    assert bdmc.log_ml(pm.sample_bdmc(model)).value == pytest.approx(field + LOG_NULL)


def test_impossible_data_are_refused():
    with pm.Model() as model:
        pm.Uniform("y", 0, 1, observed=2.0)
    with pytest.raises(ValueError, match="without free variables its log density is -inf"):
        pm.sample_bdmc(model)
    with pytest.raises(ValueError, match="it has no free variables"):
        bdmc.temper(null(), progressbar=False)
