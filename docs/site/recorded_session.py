"""Record the first ten minutes: an empty folder, the commands of a newcomer, what they print, how long they take.

python docs/site/recorded_session.py        # clones this repository, installs the clone; writes docs/first-session.md
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "first-session.md"
HEART = "--set data.name=heart --set privacy.epsilon=1 --set privacy.delta=1e-4"
FROM_NOTHING = (
    ("Install it", "make install"),
    ("The first result: an attack, a private model, a report", "make demo"),
)
GOING_ON = (
    ("What a method would promise", f"fedveil account private-records {HEART}"),
    ("Four hospitals", f"fedveil run private-records {HEART} --out runs/first"),
    ("A page to sign", "fedveil report runs/first"),
    ("Real processes over TLS", "fedveil federation demo"),
)
MISTAKES = (
    ("A method that does not exist", "fedveil run fedavgg"),
    ("A key as other libraries call it", "fedveil run fed-cdp --set lr=0.1"),
    ("Half of a key", "fedveil run private-records --set epsilon=2"),
    ("Noise where a method has none", "fedveil run fedavg --set example.sigma=1"),
    ("A data set that does not exist", "fedveil run --set data.name=mnits"),
)


@dataclass(frozen=True)
class Recorded:
    """A command, what it printed, how long it took."""

    title: str
    command: str
    printed: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        return [
            "",
            f"### {self.title}",
            "",
            f"{self.seconds:.0f} s",
            "",
            "```text",
            f"$ {self.command}",
            self.printed,
            "```",
        ]


def recorded(title: str, command: str, clone: Path) -> Recorded:
    """On a terminal of 80 columns that can't be written over."""
    path = f"{clone / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    begun = time.monotonic()
    done = subprocess.run(
        command,
        shell=True,
        cwd=clone,
        env=settings | {"COLUMNS": "80", "NO_COLOR": "1", "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    seconds = time.monotonic() - begun
    printed = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).replace(str(clone), "~/fedveil")
    kept = [line.rstrip() for line in printed.splitlines() if not line.startswith(("WARNING: ", "make: "))]
    return Recorded(title, command, "\n".join(kept).strip("\n"), seconds)


def page(first: list[Recorded], then: list[Recorded], slips: list[Recorded]) -> Iterator[str]:
    to_result, total = sum(one.seconds for one in first), sum(one.seconds for one in [*first, *then])
    yield "# The first ten minutes, recorded"
    yield ""
    yield "For whoever wants to see it before installing it. Made by `python docs/site/recorded_session.py` on"
    yield f"{os.cpu_count()} cores, from an empty folder; nothing is typed in by hand."
    yield ""
    yield "| | commands | seconds |"
    yield "| --- | --- | --- |"
    yield f"| from a clone to the first result | {len(first)} | {to_result:.0f} |"
    yield f"| all of it | {len(first) + len(then)} | {total:.0f} |"
    yield ""
    yield "Packages came from a mirror nearby; over a slow line the installation takes as long as half a gigabyte does."
    yield "The machine was doing other work at the same time."
    for title, some in (("From nothing", first), ("Going on", then), ("Five slips", slips)):
        yield from ("", f"## {title}")
        for one in some:
            yield from one.lines


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "fedveil"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        parts = [[recorded(*one, clone) for one in some] for some in (FROM_NOTHING, GOING_ON, MISTAKES)]
    PAGE.write_text("\n".join(page(*parts)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
