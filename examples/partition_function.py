"""A partition function
====================

How good is a Boltzmann machine? By annealing both ways, and by tempering.

Trains a restricted Boltzmann machine on scikit-learn's digits, bounds its log Z from both sides,
scores held-out digits, and checks everything by enumeration. Takes seconds.
"""

import sys
from pathlib import Path

import numpy as np

import pymc_bdmc as bdmc


def main(hidden: int = 15, epochs: int = 60, folder: str = "output") -> dict:
    digits = bdmc.rbm.binary_digits()[np.random.default_rng(1).permutation(1797)]
    learned, held_out = digits[:1400], digits[1400:]
    training = bdmc.rbm.train(
        learned, hidden, epochs=epochs, rate=0.2, held_out=held_out, random_seed=1
    )
    rbm = training.rbm
    print(f"log Z followed while it trained: {training.log_z[-1]:.3f}")

    annealed = bdmc.rbm.anneal(rbm, temperatures=200, random_seed=1, progressbar=False)
    print(bdmc.summary(annealed).to_string(float_format="%.3f"))
    tempered = bdmc.temper(rbm, temperatures=20, draws=500, random_seed=1, progressbar=False)
    table = bdmc.evidence(tempered)
    print(table[["value", "error", "valid"]].to_string(float_format="%.3f"))
    exact = rbm.log_z()
    print(f"exact, by enumeration: {exact:.3f}")

    score = bdmc.rbm.held_out_log_likelihood(rbm, held_out, annealed)
    print(
        f"mean log likelihood of held-out digits: {score.estimate.value:.3f} ± "
        f"{score.estimate.error:.3f}, between {score.lower.value:.3f} and {score.upper.value:.3f}"
    )
    Path(folder).mkdir(exist_ok=True)
    bdmc.plot_tempering(tempered, backend="matplotlib").savefig(f"{folder}/tempering.png")
    return {"exact": exact, "table": table, "annealed": bdmc.evidence(annealed), "score": score}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
