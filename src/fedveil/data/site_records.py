"""Which records of a data set belong to which named site."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from fedveil.core.checks import plain_name
from fedveil.core.errors import FedveilError


@dataclass(frozen=True)
class SiteRecords:
    """A site and its records: rows of the data set's training part and of its validation part.

    A site without validation records is measured on nothing of its own.
    """

    name: str
    train: range
    validation: range = range(0)


def sites_in_order(names: Sequence[str], train: Sequence[int], validation: Sequence[int]) -> tuple[SiteRecords, ...]:
    """Sites whose records stand one after another, so many of each in the training and in the validation part."""
    sites, first, first_held_out = [], 0, 0
    for name, records, held_out in zip(names, train, validation, strict=True):
        rows = range(first, first + records)
        sites.append(SiteRecords(name, rows, range(first_held_out, first_held_out + held_out)))
        first, first_held_out = first + records, first_held_out + held_out
    return tuple(sites)


def check_site_names(names: Sequence[object]) -> None:
    """Refuse names that no table can show, and those that people or file systems would take for one another."""
    if not names:
        raise FedveilError("sites: there are none")
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str):
            raise FedveilError(f"sites: a name must be a text, not {name!r}")
        plain_name("the name of a site", name)
        if name != name.strip():
            raise FedveilError(f"sites: the name {name!r} begins or ends with a space")
        alike = unicodedata.normalize("NFKC", name).casefold()
        if alike not in seen:
            seen[alike] = name
        elif seen[alike] == name:
            raise FedveilError(f"sites: there are {names.count(name)} called '{name}'")
        else:
            raise FedveilError(f"sites: '{seen[alike]}' and '{name}' are too much alike; call one of them differently")


def check_sites(sites: Sequence[SiteRecords], train: int, validation: int) -> None:
    """Refuse names that no table can show or that stand twice, and rows that are missing, shared or out of order."""
    check_site_names([site.name for site in sites])
    for site in sites:
        if not len(site.train):
            raise FedveilError(f"site '{site.name}': holds no records to train on")
    rows = [row for site in sites for row in (site.train.start, site.train.stop)]
    if rows != sorted(rows) or rows[0] != 0 or rows[-1] != train or rows[1:-1:2] != rows[2::2]:
        raise FedveilError(f"sites: their records are not the {train} training records, one site after another")
    if any(site.validation.stop > validation for site in sites):
        raise FedveilError(f"sites: their validation records are not among the {validation} that there are")
