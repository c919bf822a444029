"""The coordinator's run: sites join, then it is a run like any other, whose clients are the sites.

After a crash, or when too few have answered, the same questions are asked again: of the cohort that was drawn and
charged, with the model of the last checkpoint. Sites that have answered send the same bytes, for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedveil.core.errors import FedveilError
from fedveil.engine.loop import BelowQuorum
from fedveil.federation.coordinator_home import Contact, CoordinatorHome, now
from fedveil.federation.planning import prepared_from, read_validation
from fedveil.parts.cohorts import needed
from fedveil.report.terminal.run_progress import Reporter, SilentReporter
from fedveil.runs.prepare import Prepared
from fedveil.runs.result import Result
from fedveil.runs.run import begin_training, continue_training, resume
from fedveil.runtimes.site_network import Correspondence, CountedAtSites, Refusal, over_network
from fedveil.runtimes.transport import Transport

TRIES = 3
"""How often a round is asked for in which too few have answered, before the run stops. It can be gone on with."""


@dataclass(frozen=True)
class Joined:
    """Which sites agree to the plan and are there; what the plan costs each of them by its own account, and who not."""

    prices: dict[str, float | None]
    refusals: dict[str, Refusal]
    rehearsing: tuple[str, ...] = ()


def run_federation(
    home: CoordinatorHome,
    transport: Transport,
    *,
    reporter: Reporter | None = None,
    tries: int = TRIES,
    heard: Callable[[Contact], None] = lambda contact: None,
) -> Result:
    """Train by the plan, or go on with a training that was interrupted. `heard` is told what every site does."""
    reporter = reporter or SilentReporter()
    prepared = prepared_from(home.plan, read_validation(home.validation, home.plan.schema))
    if home.run.result.exists():
        return resume(home.run.directory, dataset=prepared.dataset)
    correspondence = corresponding(home, transport, heard)
    joined = ask_to_join(correspondence)
    _check_joined(home, joined, reporter)
    for remaining in reversed(range(tries)):
        try:
            return _train(home, prepared, correspondence, reporter)
        except BelowQuorum as error:
            if not remaining:
                raise
            reporter.note(f"{error}; asking once more")
    raise AssertionError("a try ends or raises")


def corresponding(
    home: CoordinatorHome, transport: Transport, heard: Callable[[Contact], None] = lambda contact: None
) -> Correspondence:
    """All that it takes to talk to the sites of the plan, with what they do noted on the disk."""

    def note(name: str, round: int | None, refusal: Refusal | None) -> None:
        problem, text = ("", "") if refusal is None else (refusal.kind, refusal.text)
        contact = Contact(now(), name, round, problem, text)
        home.note_contact(contact)
        heard(contact)

    return Correspondence(
        transport=transport,
        plan=home.plan.digest,
        key=home.key,
        sites=home.sites,
        deadline=home.plan.deadline,
        marks=home.read_marks(),
        keep_marks=home.keep_marks,
        note=note,
    )


def ask_to_join(correspondence: Correspondence) -> Joined:
    """Ask every site of the plan whether it takes part."""
    prices: dict[str, float | None] = {}
    refusals: dict[str, Refusal] = {}
    rehearsing: list[str] = []
    noted = correspondence.note

    def note(name: str, round: int | None, refusal: Refusal | None) -> None:
        if refusal is not None:
            refusals[name] = refusal
        noted(name, round, refusal)

    correspondence.note = note
    try:
        for client, header, _ in correspondence.ask(range(len(correspondence.sites)), {"kind": "join"}):
            name, price = correspondence.sites[client].name, header.get("price")
            prices[name] = float(price) if isinstance(price, int | float) else None
            rehearsing += [name] if header.get("rehearsal") is True else []
    finally:
        correspondence.note = noted
    return Joined(prices, refusals, tuple(rehearsing))


def _check_joined(home: CoordinatorHome, joined: Joined, reporter: Reporter) -> None:
    """Begin only if the quorum can be reached. Who does not join may still be drawn: nobody is left out of the draw."""
    for name, refusal in joined.refusals.items():
        reporter.note(f"{name} does not take part ({refusal.kind}): {refusal.text}")
    for name in joined.rehearsing:
        reporter.note(f"{name} is a rehearsal: it protects nothing")
    method, sites = home.plan.spec.method, len(home.plan.sites)
    sampler = method.cohort.at(0, method.rounds)
    least = needed(sampler, min(int(sampler.divisor(sites) + 0.5), sites))
    if len(joined.prices) < least:
        reasons = "; ".join(f"{name}: {refusal.text}" for name, refusal in joined.refusals.items())
        raise FedveilError(f"{len(joined.prices)} of {sites} sites take part, and {least} must: {reasons}")


def _train(home: CoordinatorHome, prepared: Prepared, correspondence: Correspondence, reporter: Reporter) -> Result:
    runtime = over_network(correspondence, _counted(home))
    home.run.clear_beginning()
    if home.run.manifest.is_file():
        return continue_training(prepared, home.run, runtime, reporter, at_sites=True)
    return begin_training(prepared, home.run, runtime, reporter, at_sites=True)


def _counted(home: CoordinatorHome) -> CountedAtSites | None:
    counts, plan = home.plan.spec.evaluation.counts, home.plan
    if counts is None:
        return None
    return CountedAtSites(counts, tuple(site.held_out for site in plan.sites), plan.schema.task.outputs)
