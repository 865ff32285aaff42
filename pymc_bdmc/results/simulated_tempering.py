"""Estimate log Z from simulated tempering, by every method on the same draws."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import (
    Estimate,
    count_passages,
    mbar_error,
    rao_blackwellized,
    sequential_likelihood,
    thermodynamic_integration,
)
from pymc_bdmc.results.groups import attribute, is_simulated_tempering

__all__ = ["MIN_PASSAGES", "mbar", "simulated_tempering_estimates", "tempering_group"]

MIN_PASSAGES = 10
"""Fewest passages from end to end of the temperatures, over all chains, for a valid estimate."""

MAX_MBAR_DRAWS = 20_000
"""Most draws that pymbar is given; it stores several matrices of size draws × temperatures."""


def simulated_tempering_estimates(dt: xr.DataTree, method: str = "all") -> tuple[dict, list[str]]:
    """Estimate log Z by one method or by all; return estimates and the names of all methods.

    See `evidence`.
    """
    run = tempering_group(dt)
    ell, places, betas, guess = (
        run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")
    )

    def integrated(rule, **weights):
        return lambda: thermodynamic_integration(ell, betas, rule=rule, **weights)

    rules = ("riemann", "trapezoid", "corrected")
    methods = {
        "RTS": lambda: _rao_blackwellized(ell, betas, guess),
        "sequential likelihood": lambda: _sequential(dt),
        **{f"TI {rule}": integrated(rule, places=places) for rule in rules},
        **{f"TI-RB {rule}": integrated(rule, log_z=guess) for rule in rules},
        "MBAR": lambda: mbar(dt),
    }
    chosen = [name for name in methods if method in ("all", name)]
    if method == "all" and not find_spec("pymbar"):
        chosen.remove("MBAR")
    passages = count_passages(places, len(betas)).sum()
    found = {}
    for name in chosen:
        estimate = methods[name]()
        found[name] = replace(
            estimate,
            value=estimate.value + attribute(dt, "log_prior_mass"),
            error=float(np.hypot(estimate.error, attribute(dt, "log_prior_mass_error"))),
            valid=bool(estimate.valid and passages >= MIN_PASSAGES),
            reason=f"{estimate.reason}; {passages} passages from end to end",
        )
    return found, list(methods)


def tempering_group(dt: xr.DataTree) -> xr.Dataset:
    """Return the draws of `temper`; raise an error for other results."""
    if not is_simulated_tempering(dt):
        raise ValueError("dt: it has no group 'tempering'; a result of temper is needed.")
    return dt["tempering"].dataset


def _rao_blackwellized(ell, betas, guess) -> Estimate:
    """Estimate log Z by RTS; the reason states the leading order of its bias."""
    found = rao_blackwellized(ell, betas, guess)
    reason = f"{found.estimate.reason}, bias {found.bias[-1]:.2g} nats"
    return replace(found.estimate, reason=reason)


def _sequential(dt: xr.DataTree) -> Estimate:
    """Estimate log Z by the sequential likelihood of all iterations, the initial ones first."""
    initial, run = dt["initial"].dataset, dt["tempering"].dataset

    def joined(name):
        return np.concatenate([initial[name].values, run[name].values[None]])

    draws = np.append(initial["draws"].values, run.sizes["draw"])
    return sequential_likelihood(joined("log_probability"), joined("log_z_guess"), draws).estimate


def mbar(dt: xr.DataTree) -> Estimate:
    """Estimate log Z by the multistate Bennett acceptance ratio (MBAR), solved by pymbar.

    See Shirts and Chodera (2008). Long chains are thinned to 20,000 draws in all. Since draws of a
    chain are correlated, the error is `mbar_error`, not that of pymbar.

    Parameters
    ----------
    dt : DataTree
        Result of `temper`.

    Raises
    ------
    ImportError
        Without pymbar; the message gives the command that installs it.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> from pymc_bdmc.results.simulated_tempering import mbar
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.ones((3, 2)))
    >>> dt = bdmc.temper(rbm, temperatures=4, draws=100, random_seed=1, progressbar=False)
    >>> mbar(dt).valid
    True
    """
    try:
        from pymbar import MBAR
    except ImportError as missing:
        raise ImportError(
            "MBAR needs pymbar: pip install 'pymc-bdmc[mbar]', or choose another method."
        ) from missing
    run = dt["tempering"].dataset
    run = run.isel(draw=slice(None, None, -(-run["place"].size // MAX_MBAR_DRAWS)))
    ell, places, betas, guess = (
        run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")
    )
    order = np.argsort(places, axis=None, kind="stable")
    counts = np.bincount(places.ravel(), minlength=len(betas))
    energies = -betas[:, None] * ell.ravel()[order]
    # pymbar's own Newton iteration; its other solvers pass options that SciPy warns about
    protocol = ({"method": "adaptive", "options": {"min_sc_iter": 0}},)
    log_z = -MBAR(energies, counts, initial_f_k=-guess, solver_protocol=protocol).f_k
    log_z -= log_z[0]
    error = mbar_error(ell, places, betas, log_z)
    visited = int(np.count_nonzero(counts))
    reason = f"{visited} of {len(betas)} temperatures visited"
    return Estimate(
        float(log_z[-1]), float(error[-1]), "MBAR", bool(counts[0] and counts[-1]), reason
    )
