"""Which records of a data set belong to which named site."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SiteRecords:
    """A site and its records: rows of the data set's training part and of its validation part.

    A site without validation records is measured on nothing of its own.
    """

    name: str
    train: range
    validation: range = range(0)
