"""`Metropolis` with PoissonProposal, which is not symmetric, has no Hastings correction."""

import pymc as pm
from pymc.step_methods.metropolis import NormalProposal, PoissonProposal

print("PyMC", pm.__version__)
print("mean                 4")
for proposal in (NormalProposal, PoissonProposal):
    with pm.Model():
        x = pm.Poisson("x", 4)
        step = pm.Metropolis([x], proposal_dist=proposal)
        draws = pm.sample(20_000, step=step, chains=2, cores=1, random_seed=1, progressbar=False)
    print(f"mean, {proposal.__name__:15}", draws["posterior"]["x"].values.mean().round(3))
