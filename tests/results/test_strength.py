"""Bayes factors in words: those of Kass and Raftery, and of the whole interval."""

import numpy as np
import pandas as pd
import pytest

from pymc_bdmc.results.compare import conclusions, strength, times

BARE = "not worth more than a bare mention"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.1, 2.9, [BARE]), (3.1, 19, ["positive"]), (20.5, 149, ["strong"]),
        (151, 1e30, ["very strong"]), (1 / 19, 1 / 3.1, ["positive"]),  # for the second model
        (1 / 2.9, 2.9, [BARE]), (1 / 5, 2.9, [BARE, "positive"]), (2.9, 25, [BARE, "strong"]),
    ],
)  # fmt: skip
def test_words_are_those_of_the_paper(low, high, words):
    told = " to ".join(f'"{word}"' for word in words)
    found = strength(*np.log([low, high]))
    assert found == f"Kass and Raftery (1995) call such evidence {told}."


def table(*log_ml, error=0.1):
    values = np.array(log_ml)
    share = np.exp(values) / np.exp(values).sum()
    return pd.DataFrame(
        {
            "log_bayes_factor": values - values[0], "probability": share, "valid": True,
            "bayes_factor_error": [0.0] + [error] * (len(values) - 1),
        },
        index=list("abc")[: len(values)],
    )  # fmt: skip


CARE = "depend on the priors of the parameters within each model"
FAR = table(0.0, -np.log(30), -9.0)


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (FAR, "The data favour a over b, with a Bayes factor of 30 (95 "),
        (FAR, "(95 % interval 24.7 to 36.5).\n"),
        (FAR, "equally probable beforehand, the probability of a is 0.97."),
        (FAR, CARE),
        (table(0.0, -0.1), "It is open whether the data favour a or b"),
        (table(0.0, -0.1, error=0.01), "The data favour a over b"),
        (table(0.0, -34.5), "more than 10,000 (its logarithm is 34.50 ± 0.10)"),
        (table(0.0, -34.5), "probability of a is above 0.999"),
        (table(0.0, -1.0).assign(valid=[True, False]), "Only a has a log ML that can be trusted."),
        (table(0.0, -1.0).assign(valid=False), "No model has a log ML that can be trusted."),
    ],
)
def test_conclusions_are_those_of_the_table(of, told):
    assert told in "\n".join(conclusions(of))


def test_a_ratio_has_no_exponent():
    assert [times(x) for x in (0.04567, 9.999, 9876.5)] == ["0.0457", "10", "9,880"]
