"""Put Bayes factors and probabilities of models into words."""

import numpy as np
import pandas as pd

from pymc_bdmc.results.log_ml import Z95, decimals

MOST_TOLD = np.log(1e4)
"""Largest log Bayes factor that is also told as a factor, nats. Chosen."""

WORDS = {"not worth more than a bare mention": 1, "positive": 3, "strong": 20, "very strong": 150}
"""Least Bayes factor by what it is called: Kass and Raftery (1995), page 777."""


def strength(lower: float, upper: float) -> str:
    """Return what Kass and Raftery (1995) call the evidence of a Bayes factor.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval of its logarithm, nats. If they have different names, both are told.

    Examples
    --------
    >>> from pymc_bdmc.results.strength import strength
    >>> strength(1.0, 2.0)
    'Kass and Raftery (1995) call such evidence "not worth more than a bare mention" to "positive".'
    """
    low, high = sorted((abs(lower), abs(upper)))
    ends = [0.0 if lower < 0 < upper else low, high]
    least = np.log(list(WORDS.values()))
    names = [list(WORDS)[np.searchsorted(least, end, side="right") - 1] for end in ends]
    words = " to ".join(f'"{name}"' for name in dict.fromkeys(names))
    return f"Kass and Raftery (1995) call such evidence {words}."


def times(ratio: float) -> str:
    """Return a ratio with three digits, and without an exponent if it is at most 1e6.

    Examples
    --------
    >>> from pymc_bdmc.results.strength import times
    >>> times(1234.5), times(0.98765)
    ('1,230', '0.988')
    """
    return f"{float(f'{ratio:.3g}'):,g}"


def conclusions(table: pd.DataFrame) -> list[str]:
    """Return what a reader may conclude from a table of models.

    Parameters
    ----------
    table : DataFrame
        As `compare` returns it, with equal prior probabilities of the models.
    """
    known = table[table["valid"]]
    if len(known) < 2:
        of_one = f"Only {known.index[0]} has a log ML that can be trusted." if len(known) else ""
        return [of_one or "No model has a log ML that can be trusted."]
    best, second = known.index[:2]
    value, error = -known["log_bayes_factor"].iloc[1], known["bayes_factor_error"].iloc[1]
    lower, upper = value - Z95 * error, value + Z95 * error
    if upper <= MOST_TOLD:
        middle, low, high = map(times, np.exp([value, lower, upper]))
        factor = f"{middle} (95 % interval {low} to {high})"
    else:
        n = decimals(error)
        factor = f"more than 10,000 (its logarithm is {value:.{n}f} ± {error:.{n}f})"
    if lower > 0:
        favoured = f"The data favour {best} over {second}, with a Bayes factor of {factor}."
    else:
        favoured = (
            f"It is open whether the data favour {best} or {second}: the Bayes factor is {factor}."
        )
    first = known["probability"].iloc[0]
    share = f"{first:#.2g}" if first < 0.9995 else "above 0.999"
    return [
        favoured,
        strength(lower, upper),
        f"If all models are equally probable beforehand, the probability of {best} is {share}.",
        "These numbers depend on the priors of the parameters within each model, however many data "
        "there are; bdmc.sensitivity shows how much.",
    ]
