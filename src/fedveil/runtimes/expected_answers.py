"""What a coordinator expects of a site in a round, and the check of its answer against that.

It is computed once a round for all sites of the same size, and from the plan and the question alone. What an honest
site sends has a length that can be told beforehand, but for a negligible probability: a longer answer does not count,
so that a site that lies moves the model no further than that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fedveil.core.declaration_records import read_receipt, receipt_record, same_declaration
from fedveil.core.norms import lengths
from fedveil.core.parameters import Layout
from fedveil.core.types import Declaration, Population, Receipt
from fedveil.engine.client import Broadcast, Upload
from fedveil.mechanisms.noise import grid_width
from fedveil.method import Method
from fedveil.parts.optimisers import Sgd
from fedveil.parts.personal import Identity, Shared
from fedveil.runtimes.messages import MessageUnreadable

TAIL = 10.0
"""The norm of P standard Gaussians exceeds sqrt(P) + TAIL with probability below exp(-TAIL²/2) < 2e-22."""

SLACK = 1.01
"""For the rounding of clipped rows, of their sums and of norms, which is far below a hundredth."""


@dataclass(frozen=True)
class ExpectedAnswer:
    """What sites of one size send in one round."""

    round: int
    declared: tuple[Declaration, ...]
    size: int
    cell: float | None  # what one of the integers is worth in the update; None where the update itself is sent
    report: int | None  # numbers in the noisy report of the update's norm, if there is one
    longest: float = math.inf  # of the update
    longest_report: float = math.inf

    def upload(self, client: int, answer: Mapping[str, Any], given: dict[str, Tensor]) -> Upload:
        """An answer as the loop takes it, if it is what the plan declares."""
        receipts = self._receipts(client, answer.get("receipts"))
        cells = report = None
        if self.cell is None:
            update = checked_vector(given.pop("update", None), self.size, torch.float32, self.longest)
        else:
            cells = checked_vector(given.pop("cells", None), self.size, torch.float64, self.longest, self.cell)
            if not torch.equal(cells.round(), cells):
                raise MessageUnreadable("its update is not on the grid of its noise")
            update = (cells * self.cell).to(torch.float32)
        if self.report is not None:
            report = checked_vector(given.pop("report", None), self.report, torch.float64, self.longest_report)
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
    round, adding_up = broadcast.round, method.examples_add_up(population.records)
    rate = method.local.rate.at(round, method.rounds)
    upload = None if method.upload is None else method.upload.at(round, method.rounds, broadcast.bound)
    reporter = None if upload is None else upload.reporter
    start = float(lengths(broadcast.parameters.double()))
    expected = {}
    for records in set(sizes):
        declared = method.declare(round, records, layout.group_count, population.clients, broadcast.bound)
        own = tuple(one for one in declared if one.place != "server")
        cell = None
        if sends_cells(own, adding_up):
            cell = grid_width(own[-1].sum_std)
            if upload is None:  # the noisy sum of one step's gradients
                cell *= -rate / method.batch.declared(records)
        expected[records] = ExpectedAnswer(
            round=round,
            declared=own,
            size=layout.size,
            cell=cell,
            report=None if reporter is None else reporter.width,
            longest=longest_update(method, own, layout.size, rate, start),
            longest_report=math.inf if reporter is None else _longest(1.0, reporter.std, reporter.width),
        )
    return expected


def sends_cells(declared: Sequence[Declaration], examples_add_up: bool) -> bool:
    """Whether a site that declares this sends integers on the grid of its noise, which the server adds exactly.

    Else it sends an update. `examples_add_up` is the method's, for the records of all sites: after one step, sums are
    added as integers only where all sites declare the same batch.
    """
    return examples_add_up or any(one.place == "upload" and one.adds_up and one.sum_std > 0 for one in declared)


def longest_update(method: Method, declared: Sequence[Declaration], size: int, rate: float, start: float) -> float:
    """A length that the update of an honest site exceeds with probability below 2e-22; infinite where none is known.

    `start` is the length of the model that was sent. A noisy upload is at most S and its noise. L steps of plain SGD
    move a model by rate/B times L sums of at most `cap` clipped rows and the sum of their noises, whose variance is L
    times that of one; every step is rounded to single precision.
    """
    by_place = {one.place: one for one in declared}
    if method.compress is not None:
        return math.inf
    if (upload := by_place.get("upload")) is not None:
        return _longest(upload.sensitivity, upload.sum_std, size)
    example = by_place.get("example")
    plain = isinstance(method.local.optimiser, Sgd) and method.local.decay == 0
    if example is None or not plain or not isinstance(method.personal, Shared | Identity):
        return math.inf
    steps, rows = example.steps, example.sampling.cap
    noise = max(example.sum_std, example.row_std * math.sqrt(rows))
    moved = _longest(steps * rows * example.sensitivity, math.sqrt(steps) * noise, size)
    moved *= abs(rate) / example.sampling.batch
    return moved + (steps + 1) * torch.finfo(torch.float32).eps * (start + moved)


def _longest(clipped: float, std: float, size: int) -> float:
    return SLACK * (clipped + std * (math.sqrt(size) + TAIL))


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


def checked_vector(
    tensor: Tensor | None, size: int, kind: torch.dtype, longest: float = math.inf, unit: float = 1.0
) -> Tensor:
    """A tensor of the shape and type that the plan has, with finite values; `unit` is what a one in it is worth."""
    if tensor is None or tensor.dtype != kind or tuple(tensor.shape) != (size,):
        raise MessageUnreadable("a tensor is missing, or not of the shape that the plan declares")
    length = abs(unit) * torch.linalg.vector_norm(tensor, dtype=torch.float64).item()
    if not math.isfinite(length) and not bool(torch.isfinite(tensor).all()):
        raise MessageUnreadable("a tensor has values that are not finite")
    if length > longest:
        raise MessageUnreadable(
            f"a tensor has length {length:.3g}, and that of a site that keeps to the plan has at most {longest:.3g}"
        )
    return tensor
