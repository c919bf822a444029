"""What everybody may know of a training before it begins: the facts that the front doors choose their settings from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedveil.accounting.context import Budget
from fedveil.config.data_spec import DataSpec
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data.dataset import Dataset, load, official_split
from fedveil.data.known_sets import known_set
from fedveil.data.outlines import Outline, known_outline
from fedveil.data.own_sites import from_sites
from fedveil.data.partitions import NaturalSites, Partition, make_partition, site_partition
from fedveil.data.site_tables import SiteProgress

MOST_ALIKE = 1_000_000
"""Clients of which it is not looked up whether there are records for so many."""


@dataclass(frozen=True)
class PublicFacts:
    """The shape of a record, the number of a model's outputs, who holds how many records, and what is promised.

    Nothing here is read off the records themselves. The name of the data set is not among the facts.
    """

    input_shape: tuple[int, ...]
    outputs: int
    records: tuple[int, ...]  # of each client
    tokens: bool  # numbers stand for words, and are not amounts
    budget: Budget | None  # None: no ε is asked for, so noise is whatever the user states

    @property
    def clients(self) -> int:
        return len(self.records)

    @property
    def mean_records(self) -> float:
        return sum(self.records) / len(self.records)

    @property
    def picture(self) -> bool:
        """Whether a record is a picture, grey or in colours, that is large enough for waves to be seen in it."""
        return len(self.input_shape) == 3 and self.input_shape[0] in (1, 3) and min(self.input_shape[1:]) >= 16

    @property
    def numbers(self) -> int:
        """How many numbers a record is made of."""
        return math.prod(self.input_shape)


def facts_of(spec: DataSpec, budget: Budget | None, outline: Outline | None = None) -> PublicFacts:
    """The facts of a training on the spec's data set, or on that of an outline that is given.

    Nothing is read where all that is asked for is known beforehand: so many clients, with so many records each.
    """
    simulated = not isinstance(spec.partition, NaturalSites) and not spec.in_files and spec.clients <= MOST_ALIKE
    if outline is None and simulated and spec.records is not None:
        known = known_set(spec.name)
        sizes = (spec.records,) * spec.clients
        return PublicFacts(known.input_shape, len(known.class_names), sizes, tokens=False, budget=budget)
    outline = outline_for(spec) if outline is None else outline
    sizes = divide(spec, outline).clients.sizes
    return PublicFacts(outline.input_shape, outline.task.outputs, sizes, outline.tokens, budget)


def outline_for(spec: DataSpec) -> Outline:
    """The outline of a spec's data set. Of one that has a name, no tensor is made."""
    if spec.in_files:
        return load_for(spec).outline
    outline = known_outline(spec.name)
    return outline.official if spec.split == "official" else outline


def load_for(spec: DataSpec, progress: SiteProgress | None = None) -> Dataset:
    """The data set of a spec: one with a name, split as the spec says, or the records of its files."""
    if spec.in_files:
        return from_sites(
            spec.table or spec.sites,
            name=spec.name,
            schema=spec.schema or None,
            classes=spec.classes or None,
            validation=spec.validation,
            # Bytes of pictures are made with nobody's statistics; classes that are counted are a statistic.
            features=None if spec.schema else Openness.PUBLIC if spec.classes else Openness.UNDECLARED,
            validation_records=spec.validation_records,
            pictures=spec.pictures,
            progress=progress,
        )
    return official_split(load(spec.name)) if spec.split == "official" else load(spec.name)


def divide(spec: DataSpec, outline: Outline) -> Partition:
    """Who holds which of a data set's records."""
    if isinstance(spec.partition, NaturalSites):
        partition = site_partition(outline.sites, spec.test, spec.seed)
        if spec.clients not in (0, len(partition.clients)):
            raise FedveilError(
                f"data.clients: the data set '{outline.name}' has {len(partition.clients)} sites, not {spec.clients};"
                " leave it out, or choose another partition"
            )
        return partition
    return make_partition(
        outline.train,
        outline.validation,
        spec.partition,
        spec.clients,
        spec.records if spec.records is not None else len(outline.train) // spec.clients,
        spec.test,
        spec.seed,
    )
