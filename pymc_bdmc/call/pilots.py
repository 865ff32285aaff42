"""The pilots of a call, which tune the kernels along every path on every data set."""

from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from pymc_bdmc.base.schedules import thermodynamic_length
from pymc_bdmc.base.streams import Entropy, Fitting, Piloting, Purpose, stream
from pymc_bdmc.base.types import MAX_RHAT, Tuning
from pymc_bdmc.call.preparation import DataSets, Preparation, Tunings
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.paths import Path, PriorPath
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.run.tasks import PilotTask, RefitTask
from pymc_bdmc.run.workers import Pool


class Piloted(Preparation, ABC):
    """A preparation whose tunings are from pilots; see `Preparation`."""

    def __init__(self, pool: Pool, engine: CompiledEngine, entropy: Entropy):
        super().__init__(pool, engine, entropy)
        self._tunings: dict[tuple[str, int], Tuning] = {}

    @property
    def kernel(self) -> str:
        """The kernels and their variables, in the order of application."""
        return self._engine.description

    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return tunings of the kernel along a path, one for each data set.

        The pilots of a first data set find where a path from a fit starts, and tune the kernel. All
        others take over its step sizes, and only the fit is made anew. On
        other paths every data set has pilots of its own; with ``fits=False`` those after the first
        leave β = 1 before they mix, since nothing is fitted to their last states.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        for new in self._missing(data, path):
            first = next(iter(data))
            known, until_mixed = self._tunings.get((path.name, first)), fits or first in new
            if path.starts_at_prior:
                found = self._pilots(new, {}, until_mixed, Piloting.FROM_PRIOR)
            elif known and path.is_fitted and not known.peaks:
                found = self._refits(new, known, path)
            else:
                found = self._from_references(new, path, until_mixed)
            self._tunings |= {(path.name, d): tuning for d, tuning in found.items()}
        return {d: self._tunings[path.name, d] for d in data}

    def _from_references(
        self, data: DataSets, path: Path, until_mixed: bool = True
    ) -> dict[int, Tuning]:
        """Tune a path from references.

        A fit to a pilot that did not mix may lie beside the posterior. A second fit is then made to
        what a pilot along the path from the first one saw, and the shorter of both paths is taken.
        """

        def from_prior(dataset: int) -> Tuning:
            return self.tunings(data, PriorPath())[dataset]

        references = self._references(data, path, from_prior, Fitting.PEAKS)
        found = self._pilots(data, references, until_mixed, Piloting.FROM_REFERENCE)
        if unmixed := self._unmixed(data, path):
            references = self._references(unmixed, path, found.__getitem__, Fitting.SECOND_PEAKS)
            second = self._pilots(unmixed, references, until_mixed, Piloting.FROM_SECOND_REFERENCE)
            for d, tuning in second.items():
                found[d] = min(found[d], tuning, key=lambda each: squared_length({d: each}))
        return found

    def _unmixed(self, data: DataSets, path: Path) -> DataSets:
        """Return the data sets on which a path is fitted to a pilot that did not mix."""
        pilots = {d: self._tunings.get((PriorPath.name, d)) for d in data if path.is_fitted}
        return {d: data[d] for d, pilot in pilots.items() if pilot and not pilot.rhat <= MAX_RHAT}

    def _refits(self, data: DataSets, known: Tuning, path: Path) -> dict[int, Tuning]:
        """Tune the path from a fit on further data; if a quick fit fails, pilots make one."""
        seeds = {d: stream(self._entropy, Purpose.PILOT, d, Piloting.REFIT) for d in data}
        tasks = [RefitTask(data[d], seed, known) for d, seed in seeds.items()]
        fits: dict[int, Tuning] = dict(zip(data, self._all(tasks, "fit"), strict=True))
        failed = {d: data[d] for d, fit in fits.items() if not fit.rhat <= MAX_RHAT}
        fits |= self.tunings(failed, PriorPath()) if failed else {}
        unmixed = self._unmixed(failed, path)
        found = self._from_references(unmixed, path) if unmixed else {}
        for d, fit in fits.items():
            if d in unmixed:
                continue
            reference = path.reference(self._engine, d, partial(fits.__getitem__, d))
            assert reference is not None, "a path that is fitted has one"
            found[d] = self._engine.adapted(known, reference, fit.rhat)
        return found

    def _missing(self, data: DataSets, path: Path) -> Iterator[DataSets]:
        """Yield the first data set, and then all others, if they have no tuning yet."""
        first = next(iter(data))
        for wanted in ([first], [d for d in data if d != first]):
            new = {d: data[d] for d in wanted if (path.name, d) not in self._tunings}
            if new:
                yield new

    def _references(
        self, data: DataSets, path: Path, seen: Callable[[int], Tuning], key: Fitting
    ) -> dict[int, Reference | None]:
        """Return where the path starts on each data set, by what a pilot saw there."""
        references = {d: path.reference(self._engine, d, partial(seen, d)) for d in data}
        for d, reference in references.items():
            if path.is_fitted and reference is not None:
                seed = stream(self._entropy, Purpose.FIT, d, key)
                references[d] = self._engine.with_peaks(reference, data[d], seed)
        return references

    def _pilots(
        self, data: DataSets, references: Mapping[int, Reference | None], until_mixed: bool,
        key: Piloting,
    ) -> dict[int, Tuning]:  # fmt: skip
        n = self._engine.pilots
        keys = [(dataset, pilot) for dataset in data for pilot in range(n)]
        seeds = [stream(self._entropy, Purpose.PILOT, d, key, c) for d, c in keys]
        tasks = [
            PilotTask(data[d], seed, references.get(d), until_mixed)
            for (d, _), seed in zip(keys, seeds, strict=True)
        ]
        found = dict(zip(keys, self._all(tasks, "fit" if references else "pilot"), strict=True))
        return {d: self._engine.combine([found[d, c] for c in range(n)]) for d in data}


def squared_length(tunings: Tunings) -> float:
    """Return the mean of Λ² over data sets, nats."""
    lengths = [
        thermodynamic_length(tuning.path_betas, tuning.mean_log_likelihood)
        for tuning in tunings.values()
    ]
    return float(np.mean(np.square(lengths)))
