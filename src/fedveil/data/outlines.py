"""A data set without its inputs: all that it takes to divide it over clients and to say what a training promises.

Nothing here needs PyTorch, so that a promise is computed before any tensor is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat
from fedveil.core.openness import Openness, features_caveats, validation_caveats
from fedveil.core.tasks import Classification, Task
from fedveil.data.dealing import Integers
from fedveil.data.known_sets import known_set
from fedveil.data.named_set import NamedSet
from fedveil.data.site_records import SiteRecords
from fedveil.data.sources import data_directories


@dataclass(frozen=True, eq=False)
class Outline:
    """`train` and `validation` are the records' labels as dealing sees them (`Dataset.outline`)."""

    name: str
    task: Task
    input_shape: tuple[int, ...]
    tokens: bool
    train: Integers
    validation: Integers
    test: Integers | None = None
    sites: tuple[SiteRecords, ...] = ()
    features: Openness = Openness.UNDECLARED
    validation_records: Openness = Openness.UNDECLARED

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What must be said with every guarantee on these records."""
        return features_caveats(self.features) + validation_caveats(self.validation_records)

    @property
    def official(self) -> Outline:
        """As `official_split` of the data set."""
        if self.test is None:
            raise no_official_test(self.name)
        whole = np.concatenate([self.train, self.validation])
        return replace(self, train=whole, validation=self.test, test=None, sites=())


def no_official_test(name: str) -> FedveilError:
    return FedveilError(f"data.split: the data set '{name}' has no official test set")


def known_outline(name: str) -> Outline:
    """The outline of a data set that has a name, read from checked files."""
    return _outline(known_set(name), tuple(data_directories()))


@lru_cache(maxsize=2)
def _outline(known: NamedSet, directories: tuple[Path, ...]) -> Outline:
    """Checksums fix what is in a known set, so that it can be remembered."""
    labels = known.labels()
    return Outline(
        name=known.name,
        task=Classification(known.class_names),
        input_shape=known.input_shape,
        tokens=labels.tokens,
        train=labels.train.astype(np.int64),
        validation=labels.validation.astype(np.int64),
        test=None if labels.test is None else labels.test.astype(np.int64),
        sites=labels.sites,
        features=known.features,
        validation_records=known.validation_records,
    )
