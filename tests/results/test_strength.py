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


def told(of):
    return "\n".join(conclusions(of))


def test_the_best_model_is_told_with_its_rival_and_what_it_depends_on():
    text = told(table(0.0, -np.log(30), -9.0))
    assert text.startswith("The data favour a over b, with a Bayes factor of 30 (95 % inter")
    assert "(95 % interval 24.7 to 36.5).\n" in text
    assert "If all models are equally probable beforehand, the probability of a is 0.97." in text
    assert "depend on the priors of the parameters within each model" in text


def test_a_difference_within_its_error_is_open():
    assert told(table(0.0, -0.1)).startswith("It is open whether the data favour a or b")
    assert told(table(0.0, -0.1, error=0.01)).startswith("The data favour a over b")


def test_a_large_factor_is_told_by_its_logarithm():
    text = told(table(0.0, -34.5))
    assert "more than 10,000 (its logarithm is 34.50 ± 0.10)" in text
    assert "probability of a is above 0.999" in text


def test_nothing_is_concluded_from_what_cannot_be_trusted():
    one = table(0.0, -1.0)
    one.loc["b", "valid"] = False
    assert told(one) == "Only a has a log ML that can be trusted."
    assert told(one.assign(valid=False)) == "No model has a log ML that can be trusted."


def test_a_ratio_has_no_exponent():
    assert [times(x) for x in (0.04567, 9.999, 9876.5)] == ["0.0457", "10", "9,880"]
