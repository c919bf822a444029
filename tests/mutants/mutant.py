"""What a planted bug is: a small patch to the sources, and who is expected to notice it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "fedveil"


class Defence(StrEnum):
    """A line of defence. Receipts and the audit run in production, tests before it."""

    RECEIPTS = "receipts"
    AUDIT = "audit"
    TESTS = "tests"


@dataclass(frozen=True)
class Patch:
    """`old` stands exactly once in the file `path` of the package, and becomes `new`."""

    path: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        times = text.count(self.old)
        if times != 1:
            raise ValueError(f"{self.path}: the text to be replaced stands there {times} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A privacy bug. `scene` is the run that executes the changed lines; its namesake, or `audit`, audits them.

    `caught_by` are the lines of defence that must notice it; `test` is the test that does, where one is named. Without
    a defence that runs in production, `reason` says why none can see it.
    """

    name: str
    bug: str
    patches: tuple[Patch, ...]
    scene: str
    audit: str | None = None
    caught_by: frozenset[Defence]
    test: str | None = None
    reason: str = ""


def copy_source(into: Path, patches: Iterable[Patch] = (), source: Path = SOURCE) -> Path:
    """A copy of the package under `into`, patched; the path to import it from.

    Files of a copy are shared with a copy of it, but for those that are patched. Compiled files stay valid.
    """
    package = into / SOURCE.name
    shutil.copytree(source, package, copy_function=shutil.copy2 if source is SOURCE else os.link)
    for patch in patches:
        path = package / patch.path
        text = patch.applied(path.read_text(encoding="utf-8"))
        for shared in (path, *path.parent.glob(f"__pycache__/{path.stem}.*.pyc")):
            shared.unlink()
        path.write_text(text, encoding="utf-8")
    return into
