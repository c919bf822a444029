"""From a spec to everything a run needs: records, who holds them, the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from fedveil.accounting.context import Context
from fedveil.config.public_facts import load_for
from fedveil.config.spec import Source, Spec, resolve
from fedveil.core.objectives import objective_for
from fedveil.core.parameters import Layout
from fedveil.core.streams import Purpose, Streams
from fedveil.data.dataset import Dataset
from fedveil.data.examples import check_brightness
from fedveil.data.partitions import Partition
from fedveil.data.site_tables import SiteProgress
from fedveil.engine.job import NO_TESTS, Job
from fedveil.engine.sanitiser import check_rounding
from fedveil.engine.server_state import ServerState, initial_state
from fedveil.engine.sites import Sites
from fedveil.models.layer_counts import known_layers
from fedveil.models.registry import build, check_tokens
from fedveil.runs.outlook import Change, divided, files_of, promised, resolve_for


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
    spec, partition = divided(spec, dataset.outline)
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
    if spec.model.name == "scattering":
        for part in (dataset.train, dataset.validation):
            check_brightness(f"data set '{dataset.name}'", part.inputs)
    for part in (dataset.train, dataset.validation) if dataset.tokens else ():
        check_tokens(model, part.inputs, spec.model.name)
    layers = Layout.of(model).group_count
    assert layers == (known_layers(spec.model.name, dataset.input_shape, spec.model.options) or layers), model
    outlook = promised(spec, dataset.outline, partition, layers)
    spec = outlook.spec
    sites = Sites.of(dataset.train, partition.clients, partition.names)
    tests = partition.tests if spec.data.test else NO_TESTS
    objective = objective_for(dataset.task, spec.objective)
    job = Job(spec.method, model, sites, dataset.validation, streams, tests, objective)
    check_rounding(spec.method, sites, job.layout)
    return Prepared(spec, dataset, partition, job, initial, outlook.changes)
