"""What is proved, for whom, and from what ran. It reads declarations and receipts, and nothing of the engine.

`plan` promises a table of guarantees for a method, `replay` computes what a run has spent from its receipts,
`calibrate` solves a cell for noise, rounds or cohort, `claims` gives the papers' own numbers with the reason for the
difference, `budget` decides what may still run, `tradeoff` speaks f-differential privacy.
"""

from fedveil.accounting.budget import Budget
from fedveil.accounting.calibrate import Calibration, calibrate
from fedveil.accounting.claims import Claim, claims
from fedveil.accounting.guarantees import Guarantee, Relation
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.table import Table, exceeded

__all__ = [
    "Budget",
    "Calibration",
    "Claim",
    "Guarantee",
    "Relation",
    "Table",
    "calibrate",
    "claims",
    "exceeded",
    "plan",
    "replay",
]
