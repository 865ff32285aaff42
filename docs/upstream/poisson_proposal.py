"""`Metropolis` with PoissonProposal, which is not symmetric, has no Hastings correction."""

import pymc as pm
from pymc.step_methods.metropolis import NormalProposal, PoissonProposal

options = dict(chains=2, cores=1, random_seed=1, progressbar=False)
print("PyMC", pm.__version__)
for proposal in (NormalProposal, PoissonProposal):
    with pm.Model():
        x = pm.Poisson("x", 4)
        draws = pm.sample(20_000, step=pm.Metropolis([x], proposal_dist=proposal), **options)
    print(f"mean, {proposal.__name__}: {draws['posterior']['x'].values.mean():.3f}")
