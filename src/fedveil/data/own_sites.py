"""A data set of named sites, each with records of its own: tables, arrays, torch data sets, folders of pictures.

Every site is encoded by itself and in the same way, so one site's records can be read where no other's are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedveil.core.checks import plain_name
from fedveil.core.deferred import torch
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Task
from fedveil.data.dataset import Dataset, from_tensors, strata, with_sites
from fedveil.data.dealing import Integers
from fedveil.data.examples import Examples
from fedveil.data.picture_format import PictureFormat
from fedveil.data.schema import Schema
from fedveil.data.schema_file import read_schema
from fedveil.data.site_reader import SiteInput, SiteReader, check_alike, site_called
from fedveil.data.site_records import sites_in_order
from fedveil.data.site_tables import SiteProgress
from fedveil.data.splits import HELD_OUT, stratified_split

Chosen = tuple[Examples, Integers | None]
"""Examples, and those of their rows that are meant; None for all."""


def from_sites(
    sites: object,
    *,
    name: str = "sites",
    schema: Schema | str | Path | None = None,
    task: Task | None = None,
    classes: Sequence[Hashable] | None = None,
    validation: object = HELD_OUT,
    features: str | None = None,
    validation_records: str | None = None,
    pictures: PictureFormat | None = None,
    description: str = "",
    progress: SiteProgress | None = None,
) -> Dataset:
    """A data set of named sites of any sizes: client i of a training is site i, with its name.

    `sites` is a mapping of names and records. A site's records are `Examples`, a pair (inputs, labels) of arrays or
    tensors, a `torch.utils.data.Dataset`, a table (CSV, Parquet, DataFrame) with a `schema`, or a folder that holds a
    folder of pictures for each class. One table whose schema names the column of the site stands for all of them.

    `classes` lists the labels in the order of their indices. Without it labels are counted, and must be whole numbers
    from 0, false and true, or texts. For a `Regression` labels are numbers in their own unit, but those of `Examples`
    are scaled already (`scaled_labels`).

    `validation` is the share of each site's records that is held out, the same ones whenever it is asked for; or
    records of their own, for all sites together or by site. What sites hold out of their own records counts as private,
    unless `validation_records` says otherwise. `features` is declared as in `from_tensors`; a schema declares it.
    """
    plain_name("name", name)
    if isinstance(classes, str) or not isinstance(classes, Iterable | None):
        raise ArgumentError("classes", f"must be a list of labels, not {classes!r}")
    schema = read_schema(schema) if isinstance(schema, str | Path) else schema
    reader = SiteReader(schema, task, None if classes is None else tuple(classes), pictures, progress)
    openness = reader.openness(features)
    by_site = reader.sites(sites)
    names = tuple(by_site)
    apart = _given_apart(reader, validation, names)
    read = {**{site_called(site): records for site, records in by_site.items()}, **apart}
    rule = reader.label_rule(read, openness)
    examples = {where: rule.examples(where, records) for where, records in read.items()}
    check_alike(examples)
    parts = [examples[site_called(site)] for site in names]
    common = bool(apart) and not isinstance(validation, Mapping)
    if apart:
        train: list[Chosen] = [(part, None) for part in parts]
        measured: list[Chosen] = [(examples[where], None) for where in apart]
    else:
        share = float(validation)  # type: ignore[arg-type]
        rows = [_split(f"{name}/{site}", part, rule.task, share) for site, part in zip(names, parts, strict=True)]
        train = [(part, kept) for part, (kept, _) in zip(parts, rows, strict=True)]
        measured = [(part, held_out) for part, (_, held_out) in zip(parts, rows, strict=True)]
    whole = _joined(train)
    _check_learnable(whole, rule.task)
    dataset = from_tensors(
        name,
        whole,
        _joined(measured),
        task=rule.task,
        description=description,
        features=openness,
        validation_records=validation_records or (Openness.UNDECLARED if common else Openness.PRIVATE),
    )
    places = sites_in_order(names, _lengths(train), [0] * len(names) if common else _lengths(measured))
    return replace(with_sites(dataset, places), schema=schema)


def _given_apart(reader: SiteReader, validation: object, names: tuple[str, ...]) -> dict[str, SiteInput]:
    """Validation records that are not held out of the sites' own, under their names in messages."""
    if isinstance(validation, float) and 0 < validation < 1:
        return {}
    if validation is None or isinstance(validation, bool | int | float):
        raise ArgumentError("validation", f"must be a share above 0 and below 1, or records, not {validation!r}")
    if not isinstance(validation, Mapping):
        return {"validation": reader.records("validation", validation)}
    if set(validation) != set(names):
        strangers = ", ".join(sorted(map(str, set(validation) ^ set(names))))
        raise ArgumentError(
            "validation", f"must have the same sites as the records; {strangers} is in one of them only"
        )
    called = {name: f"validation of {site_called(name)}" for name in names}
    return {where: reader.records(where, validation[name]) for name, where in called.items()}


def _split(name: str, records: Examples, task: Task, share: float) -> tuple[Integers, Integers]:
    """Rows to train on and rows to measure on; the smallest sites keep what they have for training."""
    held_out = min(round(share * len(records)), len(records) - 1)
    return stratified_split(name, strata(records.labels, task).numpy(), held_out)


def _lengths(parts: Sequence[Chosen]) -> list[int]:
    return [len(examples) if rows is None else len(rows) for examples, rows in parts]


def _joined(parts: Sequence[Chosen]) -> Examples:
    """One part after another, each copied once: sites may be large."""
    total, example = sum(_lengths(parts)), parts[0][0]
    if not total:
        raise ArgumentError("validation", "of these few records none is left to measure on; give a larger share")
    inputs = torch.empty((total, *example.inputs.shape[1:]), dtype=example.inputs.dtype)
    labels = torch.empty(total, dtype=example.labels.dtype)
    first = 0
    for (examples, rows), length in zip(parts, _lengths(parts), strict=True):
        chosen = examples if rows is None else examples.pick(rows)
        inputs[first : first + length], labels[first : first + length] = chosen.inputs, chosen.labels
        first += length
    return Examples(inputs, labels)


def _check_learnable(train: Examples, task: Task) -> None:
    if isinstance(task, Classification) and bool((train.labels == train.labels[0]).all()):
        only = task.class_names[int(train.labels[0])]
        raise FedveilError(f"all records to train on are of the class '{only}', so there is nothing to learn")
