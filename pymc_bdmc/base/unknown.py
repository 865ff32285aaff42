"""Answer unknown arguments, such as those of `pymc.sample`, with the argument that is meant."""

from collections.abc import Iterable
from difflib import get_close_matches

STARTS = "Runs start at draws from the prior or from a fit; the bounds would not hold otherwise."
OPTIONS = "Pass step=functools.partial(pm.NUTS, ...) with options of PyMC's NUTS."

REMEDIES = {
    "draws": "The group posterior has as many draws as the runs are worth. For more of them, pass "
    "chains, the number of independent runs, or target_error, the standard error of log ML.",
    "tune": "Pilots tune the kernels for as long as they need. For longer runs, pass temperatures.",
    "target_accept": "The compiled kernels need none. For PyMC's NUTS, pass "
    "step=functools.partial(pm.NUTS, target_accept=0.95).",
    "nuts_sampler": 'Kernels of this package anneal the runs, such as step="nuts". To judge the '
    "draws of another sampler, pass posterior=idata.",
    "nuts": OPTIONS,
    "nuts_sampler_kwargs": OPTIONS,
    "max_treedepth": OPTIONS,
    "return_inferencedata": "The result is always a DataTree, with draws in its group posterior.",
    "idata_kwargs": "Add log likelihoods by pm.compute_log_likelihood(dt, model=model).",
    "seed": "Pass random_seed.",
    "idata": "To judge draws, pass posterior=idata.",
    "var_names": "The result has all free variables; choose among them afterwards.",
    "trace": "The result is a DataTree. To save every finished run, pass store, a directory.",
    "quiet": "Pass progressbar=False.",
    "mp_ctx": "Pass cores, or an executor with processes of your own.",
    "blas_cores": "Pass cores; every run uses one.",
    "kernel": "Pass step.",
    "threshold": "The adaptive schedule needs none. For another one, pass schedule.",
    **dict.fromkeys(("init", "initvals", "n_init", "jitter_max_retries", "start"), STARTS),
}
"""Remedies by the name of an argument of `pymc.sample` or `pymc.sample_smc`."""


def refuse_unknown(unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error for arguments that are not known.

    Raises
    ------
    TypeError
        Names the argument, and what to pass in its place.

    Examples
    --------
    >>> from pymc_bdmc.base.unknown import refuse_unknown
    >>> refuse_unknown(["temperature"], ["chains", "temperatures"])
    Traceback (most recent call last):
    TypeError: temperature: sample_bdmc has no such argument. Did you mean temperatures?
    """
    for name in unknown:
        close = get_close_matches(name, list(known), n=1)
        meant = f"Did you mean {close[0]}?" if close else "See help(bdmc.sample_bdmc)."
        remedy = REMEDIES.get(name, meant)
        raise TypeError(f"{name}: sample_bdmc has no such argument. {remedy}")
