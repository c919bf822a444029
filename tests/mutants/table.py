"""Examine every planted bug with every line of defence, and write docs/defences.md. It takes minutes.

python tests/mutants/table.py
"""

from __future__ import annotations

import sys

from catalogue import GROUPS, MUTANTS
from defences_page import PAGE, page_of
from examination import EXAMINE, Seen
from laboratory import Laboratory
from mutant import Defence
from scenes import AUDITS, RUNS
from source_lines import RECEIPTS_OFF


def main() -> None:
    seen: dict[tuple[str, Defence], Seen] = {}
    with Laboratory() as laboratory:
        check_sources(laboratory)
        for mutant in MUTANTS:
            for defence, examine in EXAMINE.items():
                seen[mutant.name, defence] = examine(laboratory, mutant)
            caught = [str(defence) for defence in Defence if seen[mutant.name, defence].caught]
            print(f"{mutant.name}: {', '.join(caught) or 'nobody'}", flush=True)
    PAGE.write_text(page_of(GROUPS, seen), encoding="utf-8")
    others = [
        f"{mutant.name}: declared {sorted(mutant.caught_by)}"
        for mutant in MUTANTS
        if mutant.caught_by != {defence for defence in Defence if seen[mutant.name, defence].caught}
    ]
    if others:
        sys.exit("\n".join(["Declared is something else:", *others]))


def check_sources(laboratory: Laboratory) -> None:
    """A table means nothing if the sources as they are do not pass."""
    for scene in RUNS:
        stopped = laboratory.asked((), "run", scene)
        if stopped is not None:
            sys.exit(f"the sources as they are: {scene}: {stopped}")
    for scene in AUDITS:
        for patches in ((), RECEIPTS_OFF):
            found = laboratory.asked(patches, "audit", scene)["by"]
            if found:
                sys.exit(f"the sources as they are: audit of {scene}: {', '.join(found)}")
    named = {mutant.test for mutant in MUTANTS if mutant.test is not None}
    if laboratory.failing_test((), *named):
        sys.exit("the sources as they are: a named test fails")


if __name__ == "__main__":
    main()
