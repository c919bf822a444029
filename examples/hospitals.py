"""Four hospitals train one model; what they send says at most ε = 1 about one patient's record.

The hospitals are real: Cleveland, Budapest, Zurich and Basel, Long Beach (UCI Heart Disease), with 30 to 199 patients
to train on. The unit is one record, the adversary is the server (and so everyone who gets the model from it). All of
them take part in all rounds with all their records, so nothing is hidden by sampling: the noise alone must do it, and
it is solved for the ε that the hospitals agreed to sign. Features are scaled by round numbers that are known without
any record, as real hospitals would agree on them before.
"""

import sys

import fedveil
from fedveil.core.types import Unit, View
from fedveil.report.terminal.site_lines import site_lines

HOSPITALS = {"data.name": "heart"} | ({"stop.rounds": int(sys.argv[1])} if len(sys.argv) > 1 else {})
PRIVATE = HOSPITALS | {"privacy.epsilon": 1.0, "privacy.delta": 1e-4}  # record × server, unless it says otherwise

print("Promised, before anything is computed:")
print(fedveil.account("private-records", PRIVATE).promised.of(Unit.RECORD, View.SERVER))

private = fedveil.run("private-records", PRIVATE, seed=1)
plain = fedveil.run("fedavg", HOSPITALS, seed=1)
print(f"accuracy {private.accuracy:.3f} with the promise, {plain.accuracy:.3f} without any")

print("Spent, from the receipts of what ran:")
spent = fedveil.account(private.run)
print(spent.spent.of(Unit.RECORD, View.SERVER))
print("\n".join(site_lines(spent.sites)))
