"""Estimate log Z from simulated tempering, by every method on the same draws."""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from pymc_bdmc.estimators import (
    Estimate,
    count_passages,
    mbar_error,
    rao_blackwellized,
    sequential_likelihood,
    thermodynamic_integration,
)
from pymc_bdmc.results.reading import Reading, once

MIN_PASSAGES = 10
"""Fewest passages from end to end of the temperatures, over all chains, for a valid estimate."""

MAX_MBAR_DRAWS = 20_000
"""Most draws that pymbar is given; it stores several matrices of size draws × temperatures."""


RULES = ("riemann", "trapezoid", "corrected")

METHODS = (
    "RTS", "sequential likelihood", *(f"TI {rule}" for rule in RULES),
    *(f"TI-RB {rule}" for rule in RULES), "MBAR",
)  # fmt: skip
"""Names of all methods."""


@once
def simulated_tempering_estimates(read: Reading, method: str = "all") -> dict[str, Estimate]:
    """Estimate log Z by one method or by all; see `evidence`."""
    run = read.tempering
    ell, places, betas, guess = (
        run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")
    )

    def estimate(name: str) -> Estimate:
        if name == "RTS":
            return _rao_blackwellized(ell, betas, guess)
        if name == "sequential likelihood":
            return _sequential(read)
        if name == "MBAR":
            return mbar(read)
        how, rule = name.split()
        options: dict[str, Any] = {"places": places} if how == "TI" else {"log_z": guess}
        return thermodynamic_integration(ell, betas, **options | {"rule": rule})

    chosen = [name for name in METHODS if method in ("all", name)]
    if method == "all" and not find_spec("pymbar"):
        chosen.remove("MBAR")
    passages = count_passages(places, len(betas)).sum()
    mass = read.required("log_prior_mass"), read.required("log_prior_mass_error")
    found = {name: estimate(name) for name in chosen}
    return {
        name: replace(
            each,
            value=each.value + mass[0],
            error=float(np.hypot(each.error, mass[1])),
            valid=bool(each.valid and passages >= MIN_PASSAGES),
            reason=f"{each.reason}; {passages} passages from end to end",
        )
        for name, each in found.items()
    }


def _rao_blackwellized(ell, betas, guess) -> Estimate:
    """Estimate log Z by RTS; the reason states the leading order of its bias."""
    found = rao_blackwellized(ell, betas, guess)
    reason = f"{found.estimate.reason}, bias {found.bias[-1]:.2g} nats"
    return replace(found.estimate, reason=reason)


def _sequential(read: Reading) -> Estimate:
    """Estimate log Z by the sequential likelihood of all iterations, the initial ones first."""
    initial, run = read.group("initial"), read.tempering

    def joined(name):
        return np.concatenate([initial[name].values, run[name].values[None]])

    draws = np.append(initial["draws"].values, run.sizes["draw"])
    return sequential_likelihood(joined("log_probability"), joined("log_z_guess"), draws).estimate


@once
def mbar(read: Reading) -> Estimate:
    """Estimate log Z by the multistate Bennett acceptance ratio (MBAR), solved by pymbar.

    See Shirts and Chodera (2008). Long chains are thinned to 20,000 draws in all. Since draws of a
    chain are correlated, the error is `mbar_error`, not that of pymbar.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `temper`.

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
    run = read.tempering
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
