"""Planted bugs of the ledger: too late, not on the disk, or without one of the clients."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import LOOP, RECEIPTS, TESTS

_DERIVED, _RUN, _FILE = "runs/derived_charges.py", "runs/round_by_round.py", "ledger/chained_file.py"
_CHARGE = "pay=lambda state, cohort: ledger.charge(state.round, cohort, charges(state.round, cohort, state.bound)),"
_EXECUTE = "ledger.execute(closed.round, closed.receipts, closed.arrived)"

_OMITTED = (
    Patch(
        _RUN,
        _CHARGE,
        _CHARGE.replace("cohort,", "cohort[1:],").replace("lambda state, cohort[1:],", "lambda state, cohort"),
    ),
    Patch(
        _RUN,
        _EXECUTE,
        (
            "ledger.execute(closed.round, [one for one in closed.receipts if one.client in closed.cohort[1:]],"
            " closed.arrived[1:])"
        ),
    ),
)

LEDGER_BUGS = [
    Mutant(
        name="ledger after sending",
        bug="a round is charged after its clients have worked",
        patches=(
            Patch(LOOP, "        if begun is None:\n            pay(state, cohort)\n", ""),
            Patch(
                LOOP,
                "        tally.receipts += sanitise_sum(",
                "        pay(state, cohort)\n        tally.receipts += sanitise_sum(",
            ),
        ),
        scene="rows",
        caught_by=TESTS,
        test="tests/engine/test_engine_loop.py::test_a_round_is_paid_for_before_anything_of_it_is_sent",
        reason="the ledger is the same in the end; only a crash between sending and charging would show it",
    ),
    Mutant(
        name="ledger unsynced",
        bug="charges are not synced to the disk before a round is sent",
        patches=(Patch(_FILE, "PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF"),),
        scene="rows",
        caught_by=TESTS,
        test="tests/ledger/test_ledger_store.py::test_every_commit_is_synced_to_the_disk",
        reason="what was written reads back the same; only a power failure would show that it was not on the disk",
    ),
    Mutant(
        name="anchor unsynced",
        bug="the length of the ledger is not synced to the disk",
        patches=(Patch("core/atomic.py", "                os.fsync(file.fileno())\n", ""),),
        scene="rows",
        caught_by=TESTS,
        test="tests/core/test_core_atomic.py::test_the_file_is_synced_before_it_is_renamed_and_the_directory_after",
        reason="what was written reads back the same; only a power failure would show that it was not on the disk",
    ),
    Mutant(
        name="ledger omits a client",
        bug="one client of every round is not charged",
        patches=(Patch(_DERIVED, "            for client in cohort\n", "            for client in cohort[1:]\n"),),
        scene="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="ledger omits a client and its receipts",
        bug="one client of every round is neither charged nor on record",
        patches=_OMITTED,
        scene="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="ledger omits a client and its receipts, Poisson cohorts",
        bug="the same, where cohorts may be of any size",
        patches=_OMITTED,
        scene="many Poisson cohorts",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="ledger charges one step",
        bug="a round is charged for one step of all that it makes",
        patches=(
            Patch(
                _DERIVED,
                "            Charge(round, client, declared)\n",
                "            Charge(round, client, replace(declared, steps=1))\n",
            ),
            Patch(
                _DERIVED,
                "from functools import lru_cache\n",
                "from dataclasses import replace\nfrom functools import lru_cache\n",
            ),
        ),
        scene="rows",
        caught_by=RECEIPTS,
    ),
]
