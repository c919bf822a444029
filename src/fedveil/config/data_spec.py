"""Which records a run trains on, and who holds them."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fedveil.config.convert import unstructure
from fedveil.core.checks import FieldError, count, not_negative, one_of, plain_name
from fedveil.core.openness import Openness
from fedveil.data.known_sets import SETS
from fedveil.data.partitions import NaturalSites, PartitionKind, Shards
from fedveil.data.picture_format import PictureFormat
from fedveil.data.splits import HELD_OUT

OWN_RECORDS = ("sites", "table", "schema", "classes", "pictures", "validation", "validation_records")
"""Keys that say where records of one's own are; a spec of a named data set has none of them."""


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """Which records, and who holds them.

    Under `partition` "sites" clients are the sites that the data set comes with, each with all its records; `clients`
    is their number, or 0 until they have been counted.
    `split`: "own" keeps part of the training records for validation (docs/data.md); "official" trains on all of them
    and validates on the official test set, as Geyer et al. and Zheng et al. do.

    Records of one's own stand in files, and `name` is what they are called: `sites` has a table or a folder of pictures
    for each site, or `table` is one table whose `schema` names the site of each row. `classes` are the folders of
    pictures by class, in the order of their labels. `validation` is the share of each site's records that is held out,
    or a file with others.
    """

    name: str = "mnist"
    split: str = "own"
    clients: int = 1000
    records: int | None = 500  # per client; None deals everything out
    partition: PartitionKind = field(default_factory=Shards)
    test: int = 0  # records of each client's own test set
    seed: int = 0
    sites: dict[str, str] = field(default_factory=dict)
    table: str = ""
    schema: str = ""
    classes: tuple[str, ...] = ()
    pictures: PictureFormat | None = None
    validation: float | str = HELD_OUT
    validation_records: Openness | None = None

    def __post_init__(self) -> None:
        plain_name("name", self.name)
        if self.clients or not isinstance(self.partition, NaturalSites):
            count("clients", self.clients)
        if self.records is not None and isinstance(self.partition, NaturalSites):
            raise FieldError("records", "each site holds the records it has; leave it out, or choose another partition")
        count("records", 1 if self.records is None else self.records)
        not_negative("test", self.test)
        one_of("split", self.split, ("own", "official"))
        if self.in_files:
            self._check_files()
        else:
            self._check_no_files()

    @property
    def in_files(self) -> bool:
        """Whether the records are those of files that the spec names."""
        return bool(self.sites or self.table)

    @property
    def reproducible(self) -> bool:
        """Whether the spec alone says where the records are."""
        return self.in_files or self.name in SETS

    def _check_files(self) -> None:
        if self.sites and self.table:
            raise FieldError("table", "is one table of all sites, and data.sites has a file for each; give one of both")
        if self.name in SETS:
            raise FieldError("name", f"{self.name!r} is a data set of its own; call your records otherwise")
        if self.table and not self.schema:
            raise FieldError("schema", "is missing; it says what the columns of data.table are")
        if self.schema and (self.classes or self.pictures is not None):
            raise FieldError("schema", "is for tables, and data.classes and data.pictures for folders of pictures")
        if self.split != "own":
            raise FieldError("split", "must be 'own' for records in files")
        if isinstance(self.validation, float) and not 0 < self.validation < 1:
            raise FieldError("validation", f"must be a share above 0 and below 1, or a file, not {self.validation:g}")

    def _check_no_files(self) -> None:
        for one in said_of_files(self):
            raise FieldError(one, "is for records in files; say which, in data.sites or data.table")


def said_of_files(data: DataSpec) -> tuple[str, ...]:
    """The keys about records in files that have another value than the default."""
    defaults = {one.name: one.default if one.default is not MISSING else {} for one in fields(DataSpec)}
    return tuple(key for key in OWN_RECORDS if getattr(data, key) != defaults[key])


def without_folders(data: DataSpec) -> DataSpec:
    """The same with the names of the files alone: where they lie concerns nobody else."""
    if not data.in_files:
        return data
    return replace(
        data,
        sites={name: Path(path).name for name, path in data.sites.items()},
        table=Path(data.table).name if data.table else "",
        schema=Path(data.schema).name if data.schema else "",
        validation=Path(data.validation).name if isinstance(data.validation, str) else data.validation,
    )


def data_table(data: DataSpec) -> dict[str, Any]:
    """The table of a spec file; what can be said of records in files stands there only if it was said."""
    unsaid = set(OWN_RECORDS) - set(said_of_files(data))
    return {key: value for key, value in unstructure(data).items() if key not in unsaid}
