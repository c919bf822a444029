"""From a spec to everything a run needs: records, who holds them, the network."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from fedveil.accounting.budget import Budget
from fedveil.accounting.calibrate import calibrate
from fedveil.config.spec import DataSpec, Spec
from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.core.streams import Purpose, Streams
from fedveil.core.types import Population
from fedveil.data.dataset import Dataset, load, official_split
from fedveil.data.partitions import Partition, make_partition
from fedveil.engine.job import Job
from fedveil.engine.server import ServerState, initial_state
from fedveil.engine.sites import Sites
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.mechanisms.clip import Clip
from fedveil.models.registry import build
from fedveil.runs.budgeted_admission import excludes
from fedveil.runs.terms import Recorded, Terms


@dataclass(frozen=True)
class Prepared:
    """A run that could start now: `job` is the training that `spec` describes."""

    spec: Spec
    dataset: Dataset
    partition: Partition
    job: Job
    initial: int  # the seed of the model's first weights, also of those that are never trained
    calibrated: bool = False  # whether the spec's noise was solved for here

    def with_spec(self, spec: Spec) -> Prepared:
        """The same records and network under another spec of the same run."""
        return replace(self, spec=spec, job=replace(self.job, method=spec.method))

    def with_sites(self, sites: Sites) -> Prepared:
        """The same training on other records."""
        return replace(self, job=replace(self.job, sites=sites))

    @property
    def sites(self) -> Sites:
        return self.job.sites

    @property
    def model(self) -> nn.Module:
        return self.job.model

    @property
    def layout(self) -> Layout:
        return self.job.layout

    @property
    def streams(self) -> Streams:
        return self.job.streams

    @property
    def population(self) -> Population:
        return self.sites.population

    @property
    def layers(self) -> int:
        return self.layout.group_count

    @property
    def copies(self) -> int:
        return self.partition.max_copies

    @property
    def seeded(self) -> bool:
        return self.streams.seeded

    def initial_state(self) -> ServerState:
        return initial_state(self.spec.method, self.layout.vector(self.model))


def load_for(spec: DataSpec) -> Dataset:
    """The named data set, split as the spec says."""
    return official_split(load(spec.name)) if spec.split == "official" else load(spec.name)


def divide(spec: DataSpec, dataset: Dataset) -> Partition:
    """Who holds which of the data set's records."""
    return make_partition(
        dataset.train.labels,
        dataset.validation.labels,
        spec.partition,
        spec.clients,
        spec.records if spec.records is not None else len(dataset.train) // spec.clients,
        spec.test,
        spec.seed,
    )


def prepare(spec: Spec, dataset: Dataset | None = None, *, initial: int | None = None) -> Prepared:
    """Load, divide, build, and check that the method can run on this population.

    `initial` is the seed of a run's network (`RunFiles.initial`), where there is a run already.
    """
    dataset = load_for(spec.data) if dataset is None else dataset
    partition = divide(spec.data, dataset)
    sites = Sites.of(dataset.train, partition.clients)
    spec.method.check(sites.population)
    streams = Streams.from_system() if spec.seed is None else Streams.from_seed(spec.seed)
    initial = streams.integer(Purpose.INITIAL) if initial is None else initial
    model = build(spec.model.name, dataset.input_shape, dataset.classes, spec.model.options, seed=initial)
    layers, copies = Layout.of(model).group_count, partition.max_copies
    calibrated = _calibrated(Recorded(spec, sites.population, layers, copies, streams.seeded))
    tests = partition.tests if spec.data.test else ()
    job = Job(calibrated.method, model, sites, dataset.validation, streams, tests)
    return Prepared(calibrated, dataset, partition, job, initial, calibrated=spec.privacy.calibrate)


def _calibrated(terms: Terms) -> Spec:
    """The spec with the noise that its budget needs, where it asks for that."""
    spec, privacy = terms.spec, terms.spec.privacy
    if privacy.strict and spec.method.adaptive_clip is not None and _median(spec.method.adaptive_clip):
        raise FedveilError(
            "privacy.strict: the clipping bound is the median of the cohort's norms, read without noise, so nothing can"
            " be promised; use the bound of geyer-private (a noisy quantile) instead"
        )
    if not privacy.calibrate or privacy.epsilon is None:
        return spec
    target = Budget(privacy.epsilon, privacy.delta, privacy.unit, privacy.view)
    solved = calibrate(spec.method, terms.population, terms.layers, target, excluding=excludes(terms))
    return replace(spec, method=solved.method, privacy=replace(privacy, calibrate=False))


def _median(clip: Clip) -> bool:
    return isinstance(clip.bound, CohortMedian)
