"""An estimator of your own
========================

Add one to the study of factor models, and see where it stands.

Bennett's acceptance ratio between draws from the prior and a chain from the posterior: no path at
all. It is raced against annealing on 50 observations from ten clusters.
"""

from pathlib import Path

import factor_models as study
import numpy as np
from factor_models import ESTIMATORS, Clustering, Estimator, posterior_chain

import pymc_bdmc as bdmc


def bridge(problem, budget, rng):
    prior = problem.model.draw_rows(rng, budget // 2)
    posterior = posterior_chain(problem, budget // 2, rng)
    works = [
        [problem.model.log_likelihood(rows, problem.y) for rows in states]
        for states in (prior, posterior)
    ]
    return bdmc.estimators.bar(*works).value, budget


def main(model=None, trials: int = 25, folder: str = "output", **options):
    entrants = {"bridge": Estimator(bridge, np.mean)}
    entrants |= {name: ESTIMATORS[name] for name in ("AIS", "SMC", "population")}
    problem = (model or Clustering()).simulate(random_seed=1)
    result = study.race(problem, entrants, trials=trials, random_seed=1, **options)
    print(study.standings(result).round(2))
    Path(folder).mkdir(exist_ok=True)
    study.plot_race(result).savefig(Path(folder) / "tenth_estimator.png", dpi=100)
    return result


if __name__ == "__main__":
    main()
