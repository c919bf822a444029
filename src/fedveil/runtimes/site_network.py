"""Clients that are real sites, reached through a transport: each is asked, and answers or does not.

A round is one question to each site of the cohort. Asked again (after a crash, or by a transport that lost an answer),
a site sends the same bytes, so nothing here has to be remembered. An answer that is not what the plan declares is left
out like one that never came, and its reason is noted: a site can spoil its own part of a round, not the round.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.printable_text import printable
from fedveil.core.signing import SigningKey
from fedveil.core.types import Population, Taps
from fedveil.engine.batched import EVALUATION_SLICE, Engine, Evaluation, SiteCounts
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.job import Job
from fedveil.engine.loop import MakeRuntime, Runtime
from fedveil.engine.personal_models import Starts
from fedveil.engine.server_state import ServerState
from fedveil.mechanisms.noise import grid_width
from fedveil.mechanisms.right_counts import RightCounts, counts_width, read_counts
from fedveil.runtimes.expected_answers import check_length, checked_receipts, checked_vector, expected_answers
from fedveil.runtimes.local import one_thread, precomputed
from fedveil.runtimes.longest_answer import longest_noisy
from fedveil.runtimes.messages import (
    MessageUnreadable,
    Speaker,
    read_message,
    tensor_bytes,
    tensor_digest,
    write_message,
)
from fedveil.runtimes.transport import Transport

LONGEST_MARK = 400
"""Characters of what a site gives the coordinator to keep."""

LONGEST_REASON = 1000


@dataclass(frozen=True)
class RemoteSite:
    """A site as the plan names it; `key` is the public half of what it signs with."""

    name: str
    key: bytes


@dataclass(frozen=True)
class Refusal:
    """Why a site did not do what it was asked, or what is wrong with its answer: a kind for code, a text for people."""

    kind: str
    text: str


@dataclass
class Correspondence:
    """All that it takes to talk to the sites of one plan.

    `marks` has what each site gave to be shown to it next time, by which it notices that its ledger was set back.
    `keep_marks` stores them; `note` hears what every site did, as it comes.
    """

    transport: Transport
    plan: bytes  # its hash
    key: SigningKey
    sites: tuple[RemoteSite, ...]
    deadline: float
    marks: dict[str, str] = field(default_factory=dict)
    keep_marks: Callable[[Mapping[str, str]], None] = lambda marks: None
    note: Callable[[str, int | None, Refusal | None], None] = lambda name, round, refusal: None

    def ask(
        self, clients: Sequence[int], header: Mapping[str, Any], tensors: bytes = b"", round: int | None = None
    ) -> Iterator[tuple[int, dict[str, Any], dict[str, Tensor]]]:
        """One question to each of these sites; (number, header, tensors) of those who did as they were asked.

        Answers come as they arrive. A site that answers twice is heard once.
        """
        numbers = {self.sites[client].name: client for client in clients}
        digest = tensor_digest(tensors)
        questions = {
            name: write_message(
                self.key, Speaker.COORDINATOR, self.plan, {**header, "mark": self.marks.get(name)}, tensors, digest
            )
            for name in numbers
        }
        largest = 3 * len(tensors) + 2**20  # an update on its grid has twice the bytes of a model
        known = dict(self.marks)
        try:
            for name, data in self.transport.ask(questions, self.deadline):
                client = numbers.pop(name, None)
                if client is None:
                    continue
                try:
                    answer = read_message(data, Speaker.SITE, self.plan, self.sites[client].key, largest)
                    self._take_mark(name, answer.header.get("mark"))
                    refusal = _refusal_in(answer.header)
                except MessageUnreadable as error:
                    refusal = Refusal("unreadable", f"its answer can't be read: {error}")
                self.note(name, round, refusal)
                if refusal is None:
                    yield client, answer.header, answer.tensors
        finally:
            if self.marks != known:
                self.keep_marks(self.marks)
        for name in numbers:
            self.note(name, round, Refusal("silent", f"no answer within {self.deadline:g} seconds"))

    def _take_mark(self, name: str, mark: object) -> None:
        if isinstance(mark, str) and len(mark) <= LONGEST_MARK:
            self.marks[name] = mark


def question_name(plan: bytes, round: int, bound: float | None, parameters: Tensor) -> str:
    """By which both sides know a question: a hash of all that the answer depends on, and of nothing else."""
    digest = hashlib.sha256(b"fedveil question\0" + plan)
    digest.update(json.dumps([round, bound], allow_nan=False).encode() + b"\0")
    digest.update(parameters.detach().contiguous().numpy().data)
    return digest.hexdigest()


def evaluation_name(plan: bytes, round: int, parameters: Tensor) -> str:
    """The same of a question how good a model is after so many rounds."""
    digest = hashlib.sha256(b"fedveil evaluation\0" + plan + json.dumps(round).encode() + b"\0")
    digest.update(parameters.detach().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class CountedAtSites:
    """How sites measure a model on records that they hold out; `held_out[i]` is how many those of site `i` are."""

    counts: RightCounts
    held_out: tuple[int, ...]
    classes: int


def over_network(correspondence: Correspondence, counted: CountedAtSites | None = None) -> MakeRuntime:
    """Runtimes whose clients are the sites of a plan. With `counted`, sites say how good the model is."""

    @contextmanager
    def make(job: Job) -> Iterator[Runtime]:
        with one_thread():
            yield NetworkRuntime(precomputed(job), correspondence, counted)

    return make


class NetworkRuntime:
    """Asks sites to train. The job's own sites are numbers of records and names, from the plan; no records are here.

    The model is measured on the job's validation records, which are the coordinator's own, or by the sites.
    """

    def __init__(self, job: Job, correspondence: Correspondence, counted: CountedAtSites | None = None) -> None:
        self._job, self._sites, self._counted = job, correspondence, counted
        self._population: Population = job.sites.population
        self._engine = Engine(job)

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        """The uploads of those who answered, in the cohort's order whoever was first."""
        if taps.views or starts is not None:
            raise FedveilError("a real site shows nobody its work, and keeps a model of its own to itself")
        expected = question_name(self._sites.plan, broadcast.round, broadcast.bound, broadcast.parameters)
        header = {"kind": "train", "round": broadcast.round, "bound": broadcast.bound}
        tensors = tensor_bytes({"parameters": broadcast.parameters})
        records, job = self._population.records, self._job
        sizes = {records[client] for client in cohort}
        wanted = expected_answers(job.method, self._population, job.layout, broadcast, sizes)
        waiting, early = deque(cohort), dict[int, Upload]()
        for client, answer, given in self._sites.ask(cohort, header, tensors, broadcast.round):
            try:
                if answer.get("kind") != "update" or answer.get("question") != expected:
                    raise MessageUnreadable("it answers another question")
                early[client] = wanted[records[client]].upload(client, answer, given)
            except MessageUnreadable as error:
                name = self._sites.sites[client].name
                self._sites.note(name, broadcast.round, Refusal("not-declared", f"its answer does not count: {error}"))
                continue
            while waiting and waiting[0] in early:
                yield early.pop(waiting.popleft())
        yield from (early[client] for client in waiting if client in early)

    def evaluate(self, state: ServerState) -> Evaluation:
        if self._counted is not None:
            return self._evaluate_at_sites(self._counted, state)
        firsts = range(0, len(self._job.validation), EVALUATION_SLICE)
        return Evaluation.total([self._engine.evaluate(state.released, first) for first in firsts])

    def _evaluate_at_sites(self, counted: CountedAtSites, state: ServerState) -> Evaluation:
        """What the sites count that answer; each counts on its own records, so who is missing is left out."""
        expected = evaluation_name(self._sites.plan, state.round, state.released)
        header, tensors = {"kind": "evaluate", "round": state.round}, tensor_bytes({"parameters": state.released})
        found: dict[int, SiteCounts] = {}
        for client, answer, given in self._sites.ask(range(len(counted.held_out)), header, tensors, state.round):
            name, records = self._sites.sites[client].name, counted.held_out[client]
            declared, width = counted.counts.declare(records), counts_width(counted.classes)
            try:
                if answer.get("kind") != "counts" or answer.get("question") != expected:
                    raise MessageUnreadable("it answers another question")
                checked_receipts(answer.get("receipts"), [declared], state.round, client, width)
                cells = checked_vector(given.get("counts"), width, torch.float64)
                longest = longest_noisy(math.sqrt(2) * records, declared.sum_std, width)  # of counts, and of losses
                check_length(cells * grid_width(declared.sum_std), longest)
            except MessageUnreadable as error:
                self._sites.note(name, state.round, Refusal("not-declared", f"its counts do not count: {error}"))
                continue
            found[client] = SiteCounts(name, records, read_counts(cells, declared.sum_std))
        sites = tuple(found[client] for client in sorted(found))
        loss = sum(site.counts.loss for site in sites) if sites else math.nan
        return Evaluation(torch.empty(0, counted.classes), loss, counted=sites)


def _refusal_in(header: Mapping[str, Any]) -> Refusal | None:
    if header.get("kind") != "refused":
        return None
    kind, text = header.get("reason"), header.get("text")
    if not isinstance(kind, str) or not isinstance(text, str):
        raise MessageUnreadable("it refuses without a reason")
    return Refusal(printable(kind[:LONGEST_REASON]), printable(text[:LONGEST_REASON]))
