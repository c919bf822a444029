"""Ten thousand phones train one model; what a reader of it can tell of any one phone's records is bounded by ε.

The unit is a whole client: all that a phone holds is about its owner. The operator is trusted with the updates, the
public gets the model, so the noise comes once, at the server, on the sum. Each phone joins a round by its own coin,
and nobody outside learns who did: that, and the thousand others of each round, is what the noise is shared with.
Census records stand in, five on each phone. Nothing is chosen here but ε: `private-clients` chooses the rest.
"""

import sys

import fedveil
from fedveil.core.types import Unit, View

PHONES = {
    "data": {"name": "adult", "clients": 10_000, "records": 5, "partition": "random"},
    "privacy": {"epsilon": 2.0, "delta": 1e-5},  # client × released, unless it says otherwise
} | ({"stop.rounds": int(sys.argv[1])} if len(sys.argv) > 1 else {})
CELL = Unit.CLIENT, View.RELEASED

promise = fedveil.account("private-clients", PHONES).promised
print(f"promised to a phone, against readers of the model: {promise.of(*CELL)}")
print(f"to a phone, against the server: {promise.of(Unit.CLIENT, View.SERVER)}")

result = fedveil.run("private-clients", PHONES, seed=1)
print(f"accuracy {result.accuracy:.3f} after {result.rounds} rounds of about 1,000 phones")
print(f"spent, from the receipts: {fedveil.account(result.run).spent.of(*CELL)}")
