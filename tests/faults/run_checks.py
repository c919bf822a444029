"""What must hold of a run directory after a fault, and when the run has come to its end. Each complaint is one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from children import Sent, name_of
from families import Family
from power_loss import Content, tree_of
from safetensors import safe_open

from fedveil.config.spec import Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.ledger.store import Ledger
from fedveil.runs.account import account
from fedveil.runs.files import RunFiles
from fedveil.runs.result import NUMBERS_OF_A_RESULT
from fedveil.studies.histories import read_histories
from fedveil.studies.report import report
from fedveil.studies.series import run_directories

OUTCOME = {*NUMBERS_OF_A_RESULT, "method", "data", "seeded"} - {"seconds"}
"""What a result says that does not depend on time or on attempts, as ε does."""


def runs_of(family: Family, out: Path) -> list[RunFiles]:
    """The runs that have begun: there is a `run.json`."""
    places = run_directories(out) if family.is_series else [out]
    return [files for files in map(RunFiles, places) if files.manifest.is_file()]


def check_books(family: Family, out: Path, sent: Sequence[Sent], page: Path) -> list[str]:
    """The ledger says at least what was sent and published, and whoever reads the run can."""
    complaints, unknown = [], list(sent)
    for files in runs_of(family, out):
        try:
            spec = resolve(files.spec)
        except FedveilError as error:
            complaints.append(str(error))
            continue
        mine = [one for one in unknown if one.method == name_of(spec.method)]
        unknown = [one for one in unknown if one.method != name_of(spec.method)]
        complaints += _check_read(files, bool(mine), page)
        if mine:
            complaints += _check_charged(files, len(spec.method.mechanisms), mine)
        if mine and not family.seeded:
            complaints += _check_budget(files, spec)
    if unknown:
        complaints.append(f"{len(unknown)} rounds were sent, and there is no run that says so")
    return complaints


def _check_read(files: RunFiles, begun: bool, page: Path) -> list[str]:
    """Once anything was sent nothing may be missing; before, an error of one line is an answer."""
    complaints = []
    try:
        account(files.directory)
        problems = [problem for run in report([files.directory], page).runs for problem in run.problems]
        complaints += [f"report: {problem}" for problem in problems if begun and not _is_half_a_line(files, problem)]
        if files.published_rounds():
            read_histories([files.directory])
    except FedveilError as error:
        if begun or "\n" in str(error):
            complaints.append(f"reading: {error}")
    return complaints


def _is_half_a_line(files: RunFiles, problem: str) -> bool:
    """A report says so when the last event was not written to its end; nothing else depends on it."""
    return problem.startswith("events.jsonl: 1 of") and not files.events.read_bytes().endswith(b"\n")


def _check_charged(files: RunFiles, mechanisms: int, sent: Sequence[Sent]) -> list[str]:
    try:
        with Ledger(files.ledger) as ledger:
            rounds, charges = ledger.rounds(), ledger.charges()
    except FedveilError as error:
        return [str(error)]
    attempts = Counter((entry.round, entry.cohort) for entry in rounds)
    lacking = Counter((one.round, one.cohort) for one in sent) - attempts
    complaints = [f"the ledger lacks an attempt at round {round} with {cohort}" for round, cohort in lacking]
    owed: Counter[tuple[int, int]] = Counter()
    for one in sent:
        owed.update({(one.round, client): mechanisms for client in one.cohort})
    unpaid = owed - Counter((charge.round, charge.client) for charge in charges)
    complaints += [f"round {round}: client {client} lacks {count} charges" for (round, client), count in unpaid.items()]
    executed = {entry.round for entry in rounds if entry.executed}
    published = set(range(files.published_rounds()))
    complaints += [f"round {round} was published without receipts" for round in sorted(published - executed)]
    return complaints


def _check_budget(files: RunFiles, spec: Spec) -> list[str]:
    try:
        budget, spent = spec.privacy.budget, account(files.directory).spent
    except FedveilError:  # complained of already
        return []
    if budget is None or spent is None:
        return []
    epsilon = spent.of(budget.unit, budget.view).epsilon
    return [] if epsilon <= budget.epsilon else [f"ε = {epsilon:g} was spent of a budget of {budget.epsilon:g}"]


def check_end(family: Family, out: Path, undisturbed: Path, power_lost: bool) -> list[str]:
    """A seeded run has made the same files with the same content as one that nothing happened to.

    Where the power was lost, the file that a newer one replaced may be there again: that it went was not yet safe.
    """
    ended, whole = tree_of(out), tree_of(undisturbed)
    complaints = [f"{name} was left behind" for name, content in ended.items() if _is_unfinished(name, content)]
    ended = {name: content for name, content in ended.items() if not name.endswith("-journal")}
    if not family.seeded:
        return complaints + [
            f"{files.directory}: no result" for files in runs_of(family, out) if not files.result.exists()
        ]
    allowed = {name for name in ended if power_lost and _is_replaced(name, ended)}
    complaints += [f"{name} is in only one of them" for name in sorted((ended.keys() ^ whole.keys()) - allowed)]
    shared = sorted(ended.keys() & whole.keys())
    return complaints + [f"{name} differs" for name in shared if _lasting(out / name) != _lasting(undisturbed / name)]


def _is_unfinished(name: str, content: Content) -> bool:
    """Half a file, or a journal that SQLite would roll back; one whose head is zero means nothing."""
    hot = name.endswith("-journal") and bool(content) and any(content[:8])
    return hot or name.endswith((".part", "-wal", "-shm"))


def _is_replaced(name: str, names: Iterable[str]) -> bool:
    """A checkpoint, or a client's model, of which there is a newer one: `…-ROUND.safetensors`."""
    what, _, _ = name.rpartition("-")
    return name.endswith(".safetensors") and any(other > name and other.startswith(f"{what}-") for other in names)


def _lasting(path: Path) -> object:
    """What of a file follows from the seed alone: not from time, nor from how many attempts were paid for."""
    if path.name == "result.json":
        return {key: value for key, value in json.loads(path.read_text()).items() if key in OUTCOME}
    if path.name == "events.jsonl":
        events = map(json.loads, path.read_text().splitlines())
        without = ("time", "seconds")
        return [{k: v for k, v in event.items() if k not in without} for event in events if event["event"] == "round"]
    if path.suffix == ".safetensors":  # its bytes say what stands beside the tensors in any order
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118 - not a mapping
            return tensors, file.metadata()
    return path.read_bytes() if path.name in ("spec.toml", "series.json") else None
