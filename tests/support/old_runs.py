"""Runs as fedveil wrote them down before methods could noise rows one by one."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from fedveil.core.digests import text_digest
from fedveil.runs.files import RunFiles

DECLARED_EPSILON = 1.25
"""What such a run says of its rows in the tests."""


def declare_noise_on_rows(directory: Path) -> None:
    """A spec without `each_row`; σ·C for every row in the ledger; a finite ε against `on_device` in the result."""
    files = RunFiles(directory)
    kept = [line for line in files.read_spec().splitlines(keepends=True) if not line.startswith("each_row")]
    files.spec.write_text("".join(kept))
    database = sqlite3.connect(files.ledger)
    with database:
        database.execute("UPDATE about SET value = ? WHERE key = 'spec'", (text_digest(files.read_spec()),))
        for row, text in database.execute("SELECT id, declaration FROM declarations").fetchall():
            declared = json.loads(text)
            declared["row_std"] = 6 * declared["bound"]
            again = json.dumps(declared, sort_keys=True)
            database.execute("UPDATE declarations SET declaration = ? WHERE id = ?", (again, row))
    database.close()
    if files.result.exists():
        result = json.loads(files.result.read_text())
        for cell in result["guarantees"]:
            if (cell["unit"], cell["view"]) == ("record", "on_device"):
                said = {"accountant": "PLD", "composition": "4 × Gaussian(z = 3.464)", "reason": ""}
                cell |= {"epsilon": DECLARED_EPSILON, "epsilon_of_all_copies": 2.0, **said}
        files.result.write_text(json.dumps(result))
