"""Record the first ten minutes: the commands of a newcomer, what they print, and how long they take.

python docs/site/recorded_session.py        # in a clone that is installed; writes docs/first-session.md
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "first-session.md"
HEART = "--set data.name=heart --set privacy.epsilon=1 --set privacy.delta=1e-4"
COMMANDS = (
    ("An attack, a private model, a report", "fedveil demo"),
    ("What a method would promise", f"fedveil account private-records {HEART}"),
    ("Four hospitals", f"fedveil run private-records {HEART} --out runs/first"),
    ("A page to sign", "fedveil report runs/first"),
    ("A slip", "fedveil run fedavgg"),
    ("Real processes over TLS", "fedveil federation demo"),
)


def recorded(command: str, folder: Path) -> tuple[str, float]:
    """What a command prints on a terminal of 80 columns that can't be written over, and its seconds."""
    words = shlex.split(command)
    settings = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "fedveil.cli", *words[1:]],
        cwd=folder,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).rstrip(), time.monotonic() - begun


def main() -> None:
    lines = [
        "# The first ten minutes, recorded",
        "",
        "For whoever wants to see it before installing it. Made by `python docs/site/recorded_session.py` on"
        f" {os.cpu_count()} cores;",
        "nothing is typed in by hand.",
    ]
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for title, command in COMMANDS:
            printed, seconds = recorded(command, Path(folder))
            total += seconds
            shown = "\n".join(line.rstrip() for line in printed.replace(folder, "~").splitlines())
            lines += ["", f"## {title}", "", f"{seconds:.0f} s", "", "```text", f"$ {command}", shown, "```"]
    lines[4:4] = ["", f"{len(COMMANDS)} commands, {total:.0f} seconds in all."]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
