"""How often every fault was struck, and what came of it: `python tests/faults/fault_table.py`.

Strikes as often as `make test-all` does and prints tables in Markdown; exits with 1 if there was a complaint.
`--cases N` strikes N times at each family.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driver import struck
from families import FAMILIES
from shim_control import why_not

Results = Sequence[dict[str, Any]]


def table(results: Results, rows: str, columns: str) -> list[str]:
    """Cases counted by two of their properties."""
    names = sorted({result[columns] for result in results})
    counts = Counter((result[rows], result[columns]) for result in results)
    lines = [f"| {rows} | {' | '.join(names)} | all |", f"| --- |{' ---: |' * (len(names) + 1)}"]
    for row in dict.fromkeys(result[rows] for result in results):
        cells = [counts[row, name] for name in names]
        lines.append(f"| {row} | {' | '.join(str(cell or '–') for cell in cells)} | {sum(cells)} |")
    return lines


def page(results: Results, seconds: float) -> str:
    wrong = [result for result in results if result["complaints"]]
    possible = sum({result["family"]: result["possible"] for result in results}.values())
    total = f"{len(results):,} of {possible:,} possible cases, {len(wrong)} with a complaint, {seconds:.0f} s."
    lines = [total, "", *table(results, "manner", "kind"), "", *table(results, "family", "stage"), ""]
    lines += [f"- {result['case']}: {complaint}" for result in wrong for complaint in result["complaints"]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, help="for every family; default: as many as `make test-all`")
    cases = parser.parse_args().cases
    if (reason := why_not()) is not None:
        sys.exit(reason)
    most = {name: cases or family.cases for name, family in FAMILIES.items()}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        results = list(struck(Path(scratch), most))
    print(page(results, time.monotonic() - begun))
    return int(any(result["complaints"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
