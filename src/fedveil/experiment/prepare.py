"""From a spec to everything a run needs: records, who holds them, the network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from fedveil.core.parameters import Layout
from fedveil.core.streams import Purpose, Streams
from fedveil.data.dataset import Dataset, load
from fedveil.data.partitions import Partition, make_partition
from fedveil.engine.server import ServerState, initial_state
from fedveil.engine.sites import Sites
from fedveil.experiment.spec import DataSpec, Spec
from fedveil.models.registry import build
from fedveil.runtimes.local import Job


@dataclass(frozen=True)
class Prepared:
    """A run that could start now."""

    spec: Spec
    dataset: Dataset
    partition: Partition
    sites: Sites
    model: nn.Module
    layout: Layout
    streams: Streams

    @property
    def job(self) -> Job:
        return Job(self.spec.method, self.model, self.sites, self.dataset.validation, self.streams)

    def initial_state(self) -> ServerState:
        return initial_state(self.spec.method, self.layout.vector(self.model))


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


def prepare(spec: Spec, dataset: Dataset | None = None) -> Prepared:
    """Load, divide, build, and check that the method can run on this population."""
    dataset = load(spec.data.name) if dataset is None else dataset
    partition = divide(spec.data, dataset)
    sites = Sites.of(dataset.train, partition.clients)
    spec.method.check(sites.population)
    streams = Streams.from_system() if spec.seed is None else Streams.from_seed(spec.seed)
    model = build(
        spec.model.name,
        dataset.input_shape,
        dataset.classes,
        spec.model.options,
        seed=streams.integer(Purpose.INITIAL),
    )
    return Prepared(spec, dataset, partition, sites, model, Layout.of(model), streams)
