"""Six hospitals train one model; what they send says at most ε = 1 about one patient's record.

The unit is one record, the adversary is the server (and so everyone who gets the model from it). Each hospital holds 71
of the 426 training records. All of them take part in all rounds with all their records, so nothing is hidden by
sampling: the noise alone must do it, and `privacy.calibrate` solves it for the ε that the hospitals agreed to sign.
Features are scaled by round numbers that are known without any record, as real hospitals would agree on them before.
"""

import sys

import fedveil
from fedveil.core.types import Unit, View

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20

HOSPITALS = {
    "data": {"name": "cancer", "clients": 6, "records": 71, "partition": "random"},
    "model": {"name": "mlp", "options": {"hidden": []}},  # few records: a linear model needs the least noise
    "cohort": "everyone",
    "stop.rounds": ROUNDS,
}
PRIVATE = HOSPITALS | {
    "batch.size": 71,
    "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "record", "view": "server", "calibrate": True},
}

print("Promised, before anything is computed:")
print(fedveil.account("fed-cdp-calibrated", PRIVATE).promised.of(Unit.RECORD, View.SERVER))

private = fedveil.run("fed-cdp-calibrated", PRIVATE, seed=1)
plain = fedveil.run("fedavg", HOSPITALS, seed=1)
print(f"accuracy {private.accuracy:.3f} with the promise, {plain.accuracy:.3f} without any")

print("Spent, from the receipts of what ran:")
print(fedveil.account(private.run).spent.of(Unit.RECORD, View.SERVER))
