"""What a person sees of the demonstration: three steps as they happen, and one screen at the end."""

from __future__ import annotations

import shlex
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from fedveil.core.types import Unit, View
from fedveil.report.model.guarantee_headline import headline
from fedveil.report.model.verdict_sentence import guess_sentence, risk_of_cell
from fedveil.report.terminal.live_reporter import LiveReporter
from fedveil.report.terminal.wrapped_lines import COLUMNS, wrapped
from fedveil.runs.result import Result
from fedveil.runs.round_updates import RoundUpdate
from fedveil.studies.attack import AttackResult
from fedveil.studies.showcase import WITH_NOISE, WITHOUT, Showcase

_BAR = 24


class ShowcaseScreen(LiveReporter):
    """A bar for every attack and for each of the two trainings; plain lines every few seconds elsewhere."""

    def __init__(self, console: Console, every_seconds: float = 5.0) -> None:
        super().__init__(
            console,
            every_seconds,
            TextColumn("  {task.description:<24}", markup=False),
            BarColumn(_BAR),
            TextColumn("{task.fields[measured]}", markup=False),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, object] = {}
        self._lock = threading.Lock()
        self._lines: dict[str, tuple[float, str]] = {}  # when it was spoken of last, and how

    def step(self, number: int, title: str) -> None:
        with self._lock:
            for task in self._tasks.values() if self._bar is not None else ():
                self._bar.update(task, completed=1)  # type: ignore[arg-type, union-attr]
        self._say(f"{number}  {title}")

    def note(self, text: str) -> None:
        self._say(text)

    def progress(self, title: str, share: float) -> None:
        self._show(title, min(share, 1.0), f"{min(share, 1.0):.0%}")

    def round(self, name: str, update: RoundUpdate) -> None:
        accuracy = update.figures.get("accuracy")
        measured = "" if accuracy is None else f"accuracy {accuracy:.3f}"
        self._show(f"{name}, round {update.round}/{update.rounds}", update.round / update.rounds, measured, key=name)

    def _show(self, title: str, share: float, measured: str, key: str | None = None) -> None:
        with self._lock:
            if self._bar is None:
                self._say_line(key or title, f"   {title}  {measured}".rstrip(), share)
                return
            task = self._tasks.get(key or title)
            if task is None:
                self._start_bar(title, 1, measured=measured)
                self._tasks[key or title] = task = self._task
            self._bar.update(task, completed=share, description=title, measured=measured)  # type: ignore[arg-type]

    def _say_line(self, key: str, line: str, share: float) -> None:
        now, (spoke, said) = time.monotonic(), self._lines.get(key, (0.0, ""))
        if not said or (now - spoke >= self._every and line != said) or (share >= 1 and "round" in line):
            self._lines[key] = (now, line)
            self._say(line)


def final_lines(shown: Showcase) -> list[str]:
    """One screen: what happened, in numbers of these runs."""
    private, where = shown.private, shlex.quote(str(shown.out / WITH_NOISE))
    lines = ["", "─" * COLUMNS, f"  fedveil, {shown.seconds:.0f} seconds on {shown.data}", ""]
    if shown.data != "mnist":
        why = "" if shown.asked else "MNIST is not here (fedveil data fetch mnist), so this shows "
        text = "a small table of patients that comes with scikit-learn: rows of numbers, no pictures"
        lines += [*_said(f"{why}{text}"), ""]
    lines += [
        "  1  What a gradient gives away",
        f"     without protection   {_stolen(shown.bare)}",
        f"     Fed-CDP on each row  {_stolen(shown.noised)}",
        *_said(f"picture: {shown.picture}"),
        "",
        f"  2  The same training twice, on {shown.records:,} records of {shown.clients} clients",
        f"     plain                {_quality(shown.plain)}   ε = ∞",
        *wrapped(_epsilon(private), f"     private              {_quality(private)}   ", " " * 44),
    ]
    cell = risk_of_cell(private.of(Unit.RECORD, View.SERVER))
    if cell.useful:
        lines += ["", *_said(f"{guess_sentence(cell)}.")]
    lines += ["", *_said(f"3  report: {shown.report}", "  "), "", "  Go on with"]
    for command, text in (
        ("fedveil federation demo", "four hospitals, as real processes"),
        (f"fedveil account {where}", "every cell of the promise, and why"),
        ("fedveil audit", "an adversary tests the promise"),
    ):
        lines += [f"     {command:38} {text}"] if len(command) < 39 else [f"     {command}"]
    return [*lines, "─" * COLUMNS]


def kept_lines(out: Path) -> list[str]:
    """What an interrupted demonstration has left."""
    runs = [out / name for name in (WITHOUT, WITH_NOISE) if (out / name / "spec.toml").is_file()]
    if not runs:
        return ["stopped; nothing was trained yet"]
    lines = ["stopped; what was published is kept. Go on with:"]
    return lines + [f"  {shlex.join(['fedveil', 'resume', str(run)])}" for run in runs]


def _said(text: str, indent: str = "     ") -> list[str]:
    return wrapped(text, indent, "     ", COLUMNS - 2)


def _stolen(one: AttackResult) -> str:
    victims = len(one.scored[0])
    return f"{one.succeeded} of {victims} records reconstructed   (error {one.summary.means['rmse']:.2g})"


def _quality(result: Result) -> str:
    return "–" if result.accuracy is None else f"accuracy {result.accuracy:.4f}"


def _epsilon(result: Result) -> str:
    return headline(result.guarantees).partition(": ")[2].partition(";")[0]
