"""The page of all planted bugs and who catches them: made from what was measured, and read back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from examination import Seen, audit_of
from mutant import Defence, Mutant

PAGE = Path(__file__).parents[2] / "docs" / "defences.md"

CAUGHT, MISSED, NOT_TRIED = "yes", "no", "–"

_INTRODUCTION = """# Who notices a privacy bug

Three lines of defence stand between a mistake in the code and a promise that is not kept.

- **Receipts**, in every run. Each mechanism measures on the tensors what it did. A run stops before it publishes a
  round that did something else than was declared. Compared are the noise (its size in every step, in every part and at
  single points, its shape, its grid, that it is new), lengths after clipping, batches, cohorts, reports, what becomes
  of noisy sums up to the new model, and the ledger. Only yes or no leaves a client.
- **The audit** (`fedveil audit`), whenever somebody asks. It looks from outside at what a run sends and publishes, and
  compares that with the declaration: see [membership audit](audit.md).
- **Tests**, before a version is published.

To see whether they work, mistakes are planted: each is a small patch to a copy of the sources, on which a real run, a
real audit and tests of this project are executed (`tests/mutants`). The sources as they are pass all of them. An audit
has to notice by itself here: nobody compares receipts while it runs.
"""

_READING = f"""`{CAUGHT}`: it was noticed. `{MISSED}`: it was not. `{NOT_TRIED}`: not tried, since there is nothing that
an audit could look at, or no test was named for it. Where tests are all there is, the reason stands below the table.
"""

_FOOT = """
Made by `python tests/mutants/table.py` with real runs of 12 clients and audits of 60, on made-up records and a network
of 1,283 parameters. `make test` repeats what receipts say, `make test-all` everything.
"""


def page_of(groups: Mapping[str, list[Mutant]], seen: Mapping[tuple[str, Defence], Seen]) -> str:
    """The whole page."""
    mutants = [mutant for group in groups.values() for mutant in group]
    count = Counter(defence for (_, defence), one in seen.items() if one.caught)
    produced = sum(
        seen[mutant.name, Defence.RECEIPTS].caught or seen[mutant.name, Defence.AUDIT].caught for mutant in mutants
    )
    summary = (
        f"Of {len(mutants)} planted bugs receipts notice {count[Defence.RECEIPTS]}, the audit {count[Defence.AUDIT]};"
        f" one of these two, which run in production, notices {produced}. Tests are named for the other"
        f" {len(mutants) - produced}, and for {count[Defence.TESTS] - (len(mutants) - produced)} more.\n"
    )
    tables = [_table(title, group, seen) for title, group in groups.items()]
    return "\n".join([_INTRODUCTION, summary, _READING, *tables]) + _FOOT


def _table(title: str, group: list[Mutant], seen: Mapping[tuple[str, Defence], Seen]) -> str:
    lines = [
        f"## {title[0].upper()}{title[1:]}\n",
        "| planted bug | what is wrong | receipts | audit | tests |",
        "| --- | --- | --- | --- | --- |",
    ]
    notes = []
    for mutant in group:
        receipts, audit, tests = (seen[mutant.name, defence] for defence in Defence)
        audited = f"{CAUGHT}: {audit.says}" if audit.caught else MISSED if audit_of(mutant) else NOT_TRIED
        tested = NOT_TRIED if mutant.test is None else CAUGHT if tests.caught else MISSED
        lines.append(
            f"| {mutant.name} | {mutant.bug} | {CAUGHT if receipts.caught else MISSED} | {audited} | {tested} |"
        )
        if not receipts.caught and not audit.caught:
            notes.append(f"- *{mutant.name}*: {mutant.reason}. `{mutant.test}`")
    return "\n".join(lines) + "\n" + ("\n" + "\n".join(notes) + "\n" if notes else "")


def rows_of(page: str) -> dict[str, frozenset[Defence]]:
    """The defences that notice each planted bug, as a page says."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    return {
        name: frozenset(
            defence for defence, said in zip(Defence, marks, strict=True) if said.partition(":")[0].strip() == CAUGHT
        )
        for name, *marks in rows
        if name not in ("planted bug", "---")
    }
