"""All planted bugs."""

from __future__ import annotations

from bound_bugs import BOUND_BUGS
from draw_bugs import DRAW_BUGS
from ledger_bugs import LEDGER_BUGS
from mutant import Mutant
from noise_bugs import NOISE_BUGS
from report_bugs import REPORT_BUGS
from reuse_bugs import REUSE_BUGS
from row_bugs import ROW_BUGS

GROUPS: dict[str, list[Mutant]] = {
    "noise": NOISE_BUGS,
    "noise that is used again": REUSE_BUGS,
    "rows with noise of their own": ROW_BUGS,
    "bounds and declarations": BOUND_BUGS,
    "draws, limits and keys": DRAW_BUGS,
    "reports, receipts and what follows the noise": REPORT_BUGS,
    "ledger": LEDGER_BUGS,
}

MUTANTS = [mutant for group in GROUPS.values() for mutant in group]
