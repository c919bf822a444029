"""From a spec to everything a run needs: records, who holds them, the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from fedveil.accounting.calibrate import calibrate
from fedveil.accounting.context import Context
from fedveil.config.data_spec import DataSpec
from fedveil.config.public_facts import divide, load_for
from fedveil.config.site_settings import site_task
from fedveil.config.spec import Source, Spec, read_settings, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import objective_for
from fedveil.core.parameters import Layout
from fedveil.core.streams import Purpose, Streams
from fedveil.data.dataset import Dataset
from fedveil.data.partitions import Partition
from fedveil.data.site_tables import SiteProgress
from fedveil.engine.job import NO_TESTS, Job
from fedveil.engine.server import ServerState, initial_state
from fedveil.engine.sites import Sites
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.models.registry import build


@dataclass(frozen=True)
class Change:
    """A key of the spec that runs with another value than the one that was given, and why."""

    key: str
    before: object
    after: object
    reason: str

    def __str__(self) -> str:
        return f"{self.key} = {self.after:.6g} (it was {self.before}): {self.reason}"


@dataclass(frozen=True)
class Prepared:
    """A run that could start now: `job` is the training that `spec`, the spec that runs, describes."""

    spec: Spec
    dataset: Dataset
    partition: Partition
    job: Job
    initial: int  # the seed of the model's first weights, also of those that are never trained
    changes: tuple[Change, ...] = ()  # what was changed in the spec that was given

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
    def context(self) -> Context:
        """What the accountant must know of it."""
        copies = self.partition.max_copies
        return self.spec.context(
            self.sites.population,
            self.layout.group_count,
            caveats=self.dataset.caveats,
            copies=copies,
            seeded=self.streams.seeded,
        )

    @property
    def calibrated(self) -> bool:
        """Whether the spec's noise was solved for here."""
        return bool(self.changes)

    def initial_state(self) -> ServerState:
        return initial_state(self.spec.method, self.layout.vector(self.model))


def resolve_for(source: Source, overrides: Mapping[str, Any] | None, dataset: Dataset | None) -> Spec:
    """The spec on the data set that it names, or on records that were brought along, whose name it then carries."""
    if dataset is None:
        return resolve(source, overrides)
    task = None
    if dataset.sites:
        rows = len(dataset.input_shape) == 1 and not dataset.tokens
        task = site_task(len(dataset.sites), rows_of_numbers=rows)
    return resolve(source, {**(overrides or {}), "data.name": dataset.name}, task=task, dataset=dataset)


def files_of(source: Source, overrides: Mapping[str, Any] | None) -> DataSpec | None:
    """The files that a source names, before anything else of it is looked at; None where it names none."""
    data = read_settings(source, overrides).get("data")
    if not isinstance(data, Mapping) or not (data.get("sites") or data.get("table")):
        return None
    return resolve({"method": "fedavg", "data": data}).data


def prepared_for(
    source: Source,
    overrides: Mapping[str, Any] | None,
    dataset: Dataset | None,
    progress: SiteProgress | None = None,
) -> Prepared:
    """`resolve_for` and `prepare`, with the records of files read once: their number may decide the settings."""
    if dataset is not None:
        return prepare(resolve_for(source, overrides, dataset), dataset)
    records = files_of(source, overrides)
    read = None if records is None else load_for(records, progress)
    return prepare(resolve(source, overrides, dataset=read), read)


def prepare(
    spec: Spec,
    dataset: Dataset | None = None,
    *,
    initial: int | None = None,
    progress: SiteProgress | None = None,
) -> Prepared:
    """Load, divide, build, and check that the method can run on this population.

    `initial` is the seed of a run's network (`RunFiles.initial`), where there is a run already. `progress` is told how
    many rows of a table have been read.
    """
    dataset = load_for(spec.data, progress) if dataset is None else dataset
    objective = objective_for(dataset.task, spec.objective)
    partition = divide(spec.data, dataset)
    spec = replace(spec, data=replace(spec.data, clients=len(partition.clients)))
    sites = Sites.of(dataset.train, partition.clients, partition.names)
    spec.method.check(sites.population)
    streams = Streams.from_system() if spec.seed is None else Streams.from_seed(spec.seed)
    initial = streams.integer(Purpose.INITIAL) if initial is None else initial
    model = build(
        spec.model.name,
        dataset.input_shape,
        dataset.task.outputs,
        spec.model.options,
        seed=initial,
        tokens=dataset.tokens,
    )
    _check_strict(spec)
    layers, copies = Layout.of(model).group_count, partition.max_copies
    context = spec.context(sites.population, layers, caveats=dataset.caveats, copies=copies)
    spec, changes = _calibrated(spec, context)
    tests = partition.tests if spec.data.test else NO_TESTS
    job = Job(spec.method, model, sites, dataset.validation, streams, tests, objective)
    return Prepared(spec, dataset, partition, job, initial, changes)


def _check_strict(spec: Spec) -> None:
    clip = spec.method.adaptive_clip
    if spec.privacy.strict and clip is not None and isinstance(clip.bound, CohortMedian):
        raise FedveilError(
            "privacy.strict: the clipping bound is the median of the cohort's norms, read without noise, so nothing can"
            " be promised; use the bound of geyer-private (a noisy quantile) instead"
        )


def _calibrated(spec: Spec, context: Context) -> tuple[Spec, tuple[Change, ...]]:
    """The spec with the noise that its budget needs, where it asks for that, and what that changed."""
    target = spec.privacy.budget
    if not spec.privacy.calibrate or target is None:
        return spec, ()
    solved = calibrate(context, target)
    (before,) = spec.method.mechanisms.values()
    reason = f"solved for ε = {target.epsilon:g} of {target.cell} at δ = {target.delta:g}"
    changed = replace(spec, method=solved.method, privacy=replace(spec.privacy, calibrate=False))
    return changed, (Change(solved.key, before.sigma, solved.value, reason),)
