"""Put Bayes factors and probabilities of models into words."""

import numpy as np
import pandas as pd

from pymc_bdmc.results.finding import Message, message
from pymc_bdmc.results.log_ml import Z95, decimals

MOST_TOLD = np.log(1e4)
"""Largest log Bayes factor that is also told as a factor, nats. Chosen."""

WORDS = {"bare mention": 1, "positive": 3, "strong evidence": 20, "very strong": 150}
"""Least Bayes factor by what it is called: Kass and Raftery (1995), page 777."""


def strength(lower: float, upper: float) -> Message:
    """Return what Kass and Raftery (1995) call the evidence of a Bayes factor.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval of its logarithm, nats. If they have different names, both are told.

    Examples
    --------
    >>> from pymc_bdmc.results.say import say
    >>> from pymc_bdmc.results.strength import strength
    >>> say(strength(1.0, 2.0))
    'Kass and Raftery (1995) call such evidence "not worth more than a bare mention" to "positive".'
    """
    low, high = sorted((abs(lower), abs(upper)))
    ends = [0.0 if lower < 0 < upper else low, high]
    least = np.log(list(WORDS.values()))
    names = [list(WORDS)[np.searchsorted(least, end, side="right") - 1] for end in ends]
    words = message("range", parts=[message(name) for name in dict.fromkeys(names)])
    return message("strength", words=words)


def times(ratio: float) -> str:
    """Return a ratio with three digits, and without an exponent if it is at most 1e6.

    Examples
    --------
    >>> from pymc_bdmc.results.strength import times
    >>> times(1234.5), times(0.98765)
    ('1,230', '0.988')
    """
    return f"{float(f'{ratio:.3g}'):,g}"


def conclusions(table: pd.DataFrame) -> list[Message]:
    """Return what a reader may conclude from a table of models.

    Parameters
    ----------
    table : DataFrame
        As `compare` returns it, with equal prior probabilities of the models.
    """
    known = table[table["valid"]]
    if len(known) < 2:
        best = message("one model", best=known.index[0]) if len(known) else message("no model")
        return [best]
    best, second = known.index[:2]
    value, error = -known["log_bayes_factor"].iloc[1], known["bayes_factor_error"].iloc[1]
    lower, upper = value - Z95 * error, value + Z95 * error
    if upper <= MOST_TOLD:
        told = [times(each) for each in np.exp([value, lower, upper])]
        factor = message("factor", value=told[0], lower=told[1], upper=told[2])
    else:
        factor = message("log factor", value=value, error=error, n=decimals(error))
    kind = "model factor" if lower > 0 else "open factor"
    first = known["probability"].iloc[0]
    share = message("share", value=first) if first < 0.9995 else message("nearly one")
    return [
        message(kind, best=best, second=second, factor=factor),
        strength(lower, upper),
        message("model probability", best=best, share=share),
        message("depends on priors"),
    ]
