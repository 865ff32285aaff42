"""A logistic regression
=====================

The posterior of a regression on the breast cancer table: can it be believed?

Data ship with scikit-learn. The default call fits the real data, holds the prior scale at what
was found, simulates similar labels, and sandwiches *their* log ML: the gap bounds how far the
last states are from the posterior, on data like the real ones.
"""

from pathlib import Path

import pymc as pm
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import pymc_bdmc as bdmc


def build(n_features: int = 6) -> pm.Model:
    table = load_breast_cancer()
    x = scale(table.data[:, :n_features])
    with pm.Model(coords={"feature": table.feature_names[:n_features]}) as model:
        spread = pm.HalfNormal("spread", 2)
        intercept = pm.Normal("intercept", 0, 2)
        direction = pm.Normal("direction", dims="feature")
        slope = pm.Deterministic("slope", spread * direction, dims="feature")
        pm.Bernoulli("benign", logit_p=intercept + x @ slope, observed=table.target)
    return model


def main(datasets: int = 20, folder: str = "output", **options):
    with build():
        simulate = bdmc.FromHyperparameters("spread", datasets=datasets, burn_in=50)
        dt = pm.sample_bdmc(simulate=simulate, random_seed=1, **options)
    print(bdmc.summary(dt).round(3).to_string(na_rep=""))
    Path(folder).mkdir(exist_ok=True)
    picture = bdmc.plot_sandwich(dt, backend="matplotlib")
    picture.savefig(Path(folder, "logistic_regression.png"))
    return dt


if __name__ == "__main__":
    main()
