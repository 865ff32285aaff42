"""Labelled estimates of log Z from simulated tempering, by every method on the same draws."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import (
    Estimate,
    count_passages,
    mbar_error,
    rao_blackwellized,
    sequential_likelihood,
    thermodynamic_integration,
)

__all__ = ["mbar", "tempered_evidence", "tempering_group"]

MIN_PASSAGES = 10
"""From end to end of the ladder, by all chains; with fewer, none may have seen what matters."""

MAX_MBAR_DRAWS = 20_000
"""Draws that pymbar is given: it holds several matrices with a number for each of them and β."""


def tempered_evidence(dt: xr.DataTree, method: str = "all") -> pd.DataFrame:
    """Log Z by one method or by all, from the same draws; nats.

    Parameters
    ----------
    dt : DataTree
        From `temper`.
    method : str, default "all"
        ``"RTS"``, ``"sequential likelihood"`` (which uses the initial iterations too), ``"TI
        riemann"``, ``"TI trapezoid"``, ``"TI corrected"``, the same three as ``"TI-RB …"``, or
        ``"MBAR"``, which needs pymbar and is left out of ``"all"`` without it.

    Returns
    -------
    DataFrame
        Indexed by method. Columns ``value``, ``error`` (one standard error), ``bias`` (of RTS, to
        leading order), ``valid`` and ``reason``. No method is valid if all chains together went
        from one end of the ladder to the other less than 10 times. Where part of the prior makes
        the data impossible, value and error include log P(ℓ > −∞).

    Raises
    ------
    ValueError
        For an unknown method, or a result that is not of `temper`.
    ImportError
        For MBAR without pymbar.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.ones((3, 2)))
    >>> dt = bdmc.temper(rbm, temperatures=4, draws=100, random_seed=1, progressbar=False)
    >>> table = bdmc.tempered_evidence(dt, "TI-RB corrected")
    >>> round(float(table["value"].iloc[0] - rbm.log_z()), 1)
    0.0
    """
    run = tempering_group(dt)
    ell, places, betas, guess = (
        run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")
    )
    rts = rao_blackwellized(ell, betas, guess)

    def integrated(rule, **weights):
        return lambda: thermodynamic_integration(ell, betas, rule=rule, **weights)

    rules = ("riemann", "trapezoid", "corrected")
    methods = {
        "RTS": lambda: rts.estimate,
        "sequential likelihood": lambda: _sequential(dt),
        **{f"TI {rule}": integrated(rule, places=places) for rule in rules},
        **{f"TI-RB {rule}": integrated(rule, log_z=guess) for rule in rules},
        "MBAR": lambda: mbar(dt),
    }
    if method == "all":
        chosen = [name for name in methods if name != "MBAR" or find_spec("pymbar")]
    elif method in methods:
        chosen = [method]
    else:
        raise ValueError(f"method: {method!r} is not among {[*methods, 'all']}.")
    passages = count_passages(places, len(betas)).sum()
    rows = {}
    for name in chosen:
        found = methods[name]()
        rows[name] = {
            "value": found.value + dt.attrs["log_prior_mass"],
            "error": float(np.hypot(found.error, dt.attrs["log_prior_mass_error"])),
            "bias": rts.bias[-1] if name == "RTS" else np.nan,
            "valid": bool(found.valid and passages >= MIN_PASSAGES),
            "reason": f"{found.reason}; {passages} passages from end to end",
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "method"
    return table


def tempering_group(dt: xr.DataTree) -> xr.Dataset:
    """The draws of `temper`; refuses other results."""
    if "tempering" not in getattr(dt, "children", ()):
        raise ValueError("dt: it has no group 'tempering'; a result of temper is needed.")
    return dt["tempering"].dataset


def _sequential(dt: xr.DataTree) -> Estimate:
    """All runs at their different guesses, the initial iterations first."""
    initial, run = dt["initial"], dt["tempering"]

    def joined(name):
        return np.concatenate([initial[name].values, run[name].values[None]])

    draws = np.append(initial["draws"].values, run.sizes["draw"])
    return sequential_likelihood(joined("log_probability"), joined("log_z_guess"), draws).estimate


def mbar(dt: xr.DataTree) -> Estimate:
    """Log Z by the multistate Bennett acceptance ratio, solved by pymbar.

    Shirts and Chodera (2008). Long chains are thinned to 20,000 draws in all. Since draws of a
    chain are correlated, the error is not pymbar's but `mbar_error`.

    Parameters
    ----------
    dt : DataTree
        From `temper`.

    Raises
    ------
    ImportError
        Without pymbar; gives the command that installs it.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> from pymc_bdmc.results.tempered import mbar
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.ones((3, 2)))
    >>> dt = bdmc.temper(rbm, temperatures=4, draws=100, random_seed=1, progressbar=False)
    >>> mbar(dt).valid
    True
    """
    try:
        from pymbar import MBAR
    except ImportError as error:
        raise ImportError(
            "MBAR needs pymbar: pip install 'pymc-bdmc[mbar]', or choose another method."
        ) from error
    run = dt["tempering"]
    run = run.isel(draw=slice(None, None, -(-run["place"].size // MAX_MBAR_DRAWS)))
    ell, places, betas, guess = (
        run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")
    )
    order = np.argsort(places, axis=None, kind="stable")
    counts = np.bincount(places.ravel(), minlength=len(betas))
    energies = -betas[:, None] * ell.ravel()[order]
    # pymbar's own Newton iteration; its others pass options that SciPy warns of
    protocol = ({"method": "adaptive", "options": {"min_sc_iter": 0}},)
    log_z = -MBAR(energies, counts, initial_f_k=-guess, solver_protocol=protocol).f_k
    log_z -= log_z[0]
    error = mbar_error(ell, places, betas, log_z)
    visited = int(np.count_nonzero(counts))
    reason = f"{visited} of {len(betas)} temperatures visited"
    return Estimate(
        float(log_z[-1]), float(error[-1]), "MBAR", bool(counts[0] and counts[-1]), reason
    )
