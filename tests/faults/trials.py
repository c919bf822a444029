"""One family under faults: recorded undisturbed, then struck, read and gone on with, case by case."""

from __future__ import annotations

import gc
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from cases import MANNERS, Case, Stage, counted, every_case
from children import Ended, in_a_child, read_sent
from families import Family
from power_loss import Content, Disk, put_tree, tree_of
from run_checks import check_books, check_end, runs_of
from shim_control import Action, Call, Fault, Kind, read_log

from fedveil.cli import cli

OUT = "out"
"""The directory that a command is given, below the disk."""


@dataclass(frozen=True)
class Start:
    """What is on the disk before a command (`disk` knows what of it is not safe), and what was sent until then."""

    tree: dict[str, Content]
    sent: str
    disk: Disk | None = None


EMPTY = Start({}, "")


class Trials:
    """One family: how it runs undisturbed, and what becomes of it under faults."""

    def __init__(self, name: str, family: Family, scratch: Path) -> None:
        self._name, self._family = name, family
        self._scratch, self._trials = scratch, 0
        self.undisturbed = scratch / "undisturbed"
        self._run_here(family.begin(self.undisturbed))
        calls = self._recorded(EMPTY, family.begin)
        self._killed = self._kill_in_a_commit(calls)
        gc.freeze()  # or every child would copy what it only counts
        self.starts: dict[Stage, Start] = {"run": EMPTY, "resume": self._killed, "account": self._killed}
        self.counts: dict[Stage, Counter[Kind]] = {"run": counted(calls)}
        self.counts["resume"] = counted(self._recorded(self._killed, family.go_on))
        if not family.is_series:
            self.counts["account"] = counted(self._recorded(self._killed, self._account))

    def _run_here(self, command: list[str]) -> None:
        """In this process, so that what is imported and computed on the way is there for all its children."""
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            cli(command, standalone_mode=False)

    @staticmethod
    def _account(out: Path) -> list[str]:
        return ["account", str(out)]

    def _place(self, start: Start) -> tuple[Path, Path, Disk]:
        """A new disk that holds what `start` says, a folder beside it, and what of the disk is safe."""
        self._trials += 1
        disk, beside = self._scratch / f"{self._trials}", self._scratch / f"{self._trials}-beside"
        for folder in (disk, beside):
            folder.mkdir(parents=True)
        put_tree(disk, start.tree)
        (beside / "sent").write_text(start.sent)
        if start.disk is None:
            return disk, beside, Disk(disk)
        model = deepcopy(start.disk)
        model.adopt(disk)
        return disk, beside, model

    def _recorded(self, start: Start, command: Callable[[Path], list[str]]) -> list[Call]:
        disk, beside, model = self._place(start)
        ended = in_a_child(command(disk / OUT), disk, beside)
        assert ended.how == "done", ended.text
        calls = read_log(beside / "calls")
        model.follow(calls)
        assert model.everything() == tree_of(disk), "some calls pass the shim by"
        return calls

    def _kill_in_a_commit(self, calls: list[Call]) -> Start:
        """Killed when three quarters of the ledger's pages that are ever written are: its journal is hot."""
        writes = [call for call in calls if call.what == "k" and call.kind is Kind.WRITE]
        pages = [nth for nth, call in enumerate(writes, 1) if call.path.endswith("ledger.sqlite")]
        assert pages, "SQLite passes the shim by"
        disk, beside, model = self._place(EMPTY)
        fault = Fault(Kind.WRITE, pages[len(pages) * 3 // 4], Action.DIE_AFTER)
        assert in_a_child(self._family.begin(disk / OUT), disk, beside, fault).how == "killed"
        assert read_sent(beside / "sent"), "nothing was sent yet"
        model.follow(read_log(beside / "calls"))
        return Start(tree_of(disk), (beside / "sent").read_text(), model)

    def cases(self) -> list[Case]:
        return [case for stage, counts in self.counts.items() for case in every_case(self._name, stage, counts)]

    def strike(self, case: Case) -> list[str]:
        """What is wrong after this fault; nothing, if all is well."""
        disk, beside, model = self._place(self.starts[case.stage])
        out = disk / OUT
        command = {"run": self._family.begin, "resume": self._family.go_on, "account": self._account}[case.stage]
        ended = in_a_child(command(out), disk, beside, case.fault)
        calls = read_log(beside / "calls")
        complaints = _complaints_of_end(case, ended, calls)
        if MANNERS[case.manner].loss:
            model.follow(calls)
            put_tree(disk, _after_loss(model, case))
        complaints += self._books_of_a_copy(disk, beside)
        complaints += self._gone_on(disk, beside, bool(MANNERS[case.manner].loss))
        for folder in (disk, beside):
            shutil.rmtree(folder)
        return complaints

    def _books_of_a_copy(self, disk: Path, beside: Path) -> list[str]:
        """A copy, because reading may repair a ledger, and the run must go on without that."""
        shutil.copytree(disk, beside / "copy")
        said = check_books(self._family, beside / "copy" / OUT, read_sent(beside / "sent"), beside / "page.html")
        return [f"after the fault: {line}" for line in said]

    def _gone_on(self, disk: Path, beside: Path, power_lost: bool) -> list[str]:
        out = disk / OUT
        for path in disk.rglob("*"):  # what is young could be in the making by another process, and is left alone
            os.utime(path, (1, 1))
        if self._family.is_series or runs_of(self._family, out):
            ended = in_a_child(self._family.go_on(out), disk, beside)
        else:
            ended = in_a_child(self._family.begin(out), disk, beside)
        if ended.how != "done":
            return [f"going on: {ended.how}: {ended.text}"]
        complaints = check_books(self._family, out, read_sent(beside / "sent"), beside / "page.html")
        complaints += check_end(self._family, out, self.undisturbed, power_lost)
        return [f"at the end: {line}" for line in complaints]


def _complaints_of_end(case: Case, ended: Ended, calls: list[Call]) -> list[str]:
    manner = MANNERS[case.manner]
    if not any(call.what == "!" for call in calls):
        return [f"the call never came ({ended.how})"]
    if manner.kills:
        return [] if ended.how == "killed" else [f"it was to be killed: {ended.how} {ended.text}"]
    if manner.harmless:
        return [] if ended.how == "done" else [f"it was to go on: {ended.how} {ended.text}"]
    if ended.how == "error" and "\n" not in ended.text.strip():
        return []
    return [] if ended.how == "done" else [f"an error was to be one line: {ended.how}: {ended.text}"]


def _after_loss(disk: Disk, case: Case) -> dict[str, Content]:
    loss = MANNERS[case.manner].loss
    if loss == "some":
        return disk.after_some_loss(random.Random(str(case)))
    return disk.after_power_loss(names=loss == "data", data=loss == "names")
