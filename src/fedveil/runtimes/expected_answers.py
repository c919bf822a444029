"""What a coordinator expects of a site in a round, and the check of its answer against that.

It is computed once a round for all sites of the same size, and from the plan and the question alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fedveil.core.declaration_records import read_receipt, receipt_record, same_declaration
from fedveil.core.parameters import Layout
from fedveil.core.types import Declaration, Population, Receipt
from fedveil.engine.client import Broadcast, Upload
from fedveil.mechanisms.noise import grid_width
from fedveil.method import Method
from fedveil.runtimes.longest_answer import longest_noisy, longest_update
from fedveil.runtimes.messages import MessageUnreadable


@dataclass(frozen=True)
class ExpectedAnswer:
    """What sites of one size send in one round."""

    round: int
    declared: tuple[Declaration, ...]
    size: int
    cell: float | None  # what one of the integers is worth in the update; None where the update itself is sent
    longest: float  # of the update
    report: int | None  # numbers in the noisy report of the update's norm, if there is one
    longest_report: float = 0.0

    def upload(self, client: int, answer: Mapping[str, Any], given: dict[str, Tensor]) -> Upload:
        """An answer as the loop takes it, if it is what the plan declares."""
        receipts = self._receipts(client, answer.get("receipts"))
        cells = report = None
        if self.cell is None:
            update = checked_vector(given.pop("update", None), self.size, torch.float32)
        else:
            cells = checked_vector(given.pop("cells", None), self.size, torch.float64)
            if not torch.equal(cells.round(), cells):
                raise MessageUnreadable("its update is not on the grid of its noise")
            update = (cells * self.cell).to(torch.float32)
        check_length(update, self.longest)
        if self.report is not None:
            report = checked_vector(given.pop("report", None), self.report, torch.float64)
            check_length(report, self.longest_report)
        if given:
            raise MessageUnreadable("it has tensors that nobody asked for")
        return Upload(client, update, receipts, None, cells, report)

    def _receipts(self, client: int, tables: object) -> tuple[Receipt, ...]:
        """The site's receipts; those that say just what is expected, as nearly all do, need no reading."""
        if tables == [{**table, "client": client} for table in self._usual]:
            return tuple(Receipt(self.round, client, one, True, draws(one, self.size)) for one in self.declared)
        return checked_receipts(tables, self.declared, self.round, client, self.size)

    @cached_property
    def _usual(self) -> list[dict[str, Any]]:
        """Receipts as they are read from JSON, of whichever client."""
        usual = [receipt_record(Receipt(self.round, 0, one, True, draws(one, self.size))) for one in self.declared]
        tables: list[dict[str, Any]] = json.loads(json.dumps(usual))
        return tables


def expected_answers(
    method: Method, population: Population, layout: Layout, broadcast: Broadcast, sizes: Iterable[int]
) -> dict[int, ExpectedAnswer]:
    """For sites of each of these numbers of records."""
    round = broadcast.round
    rate = method.local.rate.at(round, method.rounds)
    upload = None if method.upload is None else method.upload.at(round, method.rounds, broadcast.bound)
    reporter = None if upload is None else upload.reporter
    expected = {}
    for records in set(sizes):
        declared = method.declare(round, records, layout.group_count, population.clients, broadcast.bound)
        own = tuple(one for one in declared if one.place != "server")
        cell = None
        if sends_cells(method, own, population.records):
            cell = grid_width(own[-1].sum_std)
            if upload is None:  # the noisy sum of one step's gradients
                cell *= -rate / method.batch.declared(records)
        expected[records] = ExpectedAnswer(
            round=round,
            declared=own,
            size=layout.size,
            cell=cell,
            longest=longest_update(method, own, broadcast, layout.size),
            report=None if reporter is None else reporter.width,
            longest_report=0.0 if reporter is None else longest_noisy(1.0, reporter.std, reporter.width),
        )
    return expected


def sends_cells(method: Method, declared: Sequence[Declaration], records: Sequence[int]) -> bool:
    """Whether answers are integers on the grid of their noise, which the server adds exactly; else they are updates.

    `declared` is what the site does; `records` are those of all sites: after one step, sums are added as integers only
    where all sites declare the same batch.
    """
    if method.upload is not None:
        return any(one.adds_up and one.sum_std > 0 for one in declared)
    return method.example is not None and method.examples_add_up(records)


def draws(declared: Declaration, size: int) -> int:
    """The least number of Gaussian coordinates of what is declared."""
    return declared.steps * size if declared.sum_std > 0 else 0


def checked_receipts(
    tables: object, declared: Sequence[Declaration], round: int, client: int, size: int
) -> tuple[Receipt, ...]:
    """The receipts of all that was declared, in that order, with the numbers of this machine."""
    try:
        receipts = {each.did.place: each for each in map(read_receipt, tables)}  # type: ignore[call-overload]
        several = len(tables) != len(receipts)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MessageUnreadable("it has no receipts") from None
    if several or receipts.keys() != {one.place for one in declared}:
        raise MessageUnreadable("its receipts are not those of the mechanisms that the plan declares")
    for one in declared:
        receipt = receipts[one.place]
        if (receipt.round, receipt.client) != (round, client) or not same_declaration(one, receipt.did):
            raise MessageUnreadable(f"what it did at '{one.place}' is not what the plan declares")
        if not receipt.confirmed or receipt.draws < draws(one, size):
            raise MessageUnreadable(f"it does not confirm its noise at '{one.place}'")
    return tuple(replace(receipts[one.place], did=one) for one in declared)


def checked_vector(tensor: Tensor | None, size: int, kind: torch.dtype) -> Tensor:
    """A tensor of the shape and type that the plan has, with finite values."""
    if tensor is None or tensor.dtype != kind or tuple(tensor.shape) != (size,):
        raise MessageUnreadable("a tensor is missing, or not of the shape that the plan declares")
    if not bool(torch.isfinite(tensor).all()):
        raise MessageUnreadable("a tensor has values that are not finite")
    return tensor


def check_length(tensor: Tensor, longest: float) -> None:
    """Refuse what is longer than anything that was made as the plan says."""
    if not float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) <= longest:
        raise MessageUnreadable("it is longer than any clipped sum with the noise that the plan declares")
