"""Planted bugs of what is drawn: batches, cohorts, keys, and limits on who may be drawn."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import AUDIT, BATCHES, BOTH, COHORTS, RECEIPTS, SERVER_STATE, SITES, STREAMS, TESTS

_POISSON = "joined = generator.random((steps, records)) < self.size / records"
_COHORT = "streams.generator(Purpose.COHORT, Address(round))"
_CHOSEN = "return sorted(candidates[int(index)] for index in chosen)"
_KEY = "key=secrets.token_bytes(32)"

DRAW_BUGS = [
    Mutant(
        name="Poisson replaced by fixed batches",
        bug="every batch has exactly the expected size",
        patches=(
            Patch(
                BATCHES,
                _POISSON,
                "joined = generator.random((steps, records)).argsort(axis=1).argsort(axis=1) < self.size",
            ),
        ),
        scene="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="Poisson replaced by the first records",
        bug="every batch has the same records",
        patches=(Patch(BATCHES, _POISSON, "joined = np.tile(np.arange(records) < self.size, (steps, 1))"),),
        scene="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="one batch for all steps",
        bug="a Poisson batch is drawn once a round and used in all of its steps",
        patches=(
            Patch(
                BATCHES,
                _POISSON,
                "joined = np.repeat(generator.random((1, records)) < self.size / records, steps, axis=0)",
            ),
        ),
        scene="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="the same batches in every round",
        bug="a client's Poisson batches are those of its first round",
        patches=(Patch(SITES, "Address(round, client))", "Address(0, client))"),),
        scene="poisson",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="Poisson rate doubled",
        bug="records join with twice the declared probability",
        patches=(Patch(BATCHES, _POISSON, _POISSON.replace("self.size /", "2 * self.size /")),),
        scene="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="the same cohort always",
        bug="the cohort of the first round takes part in all of them",
        patches=(Patch(SERVER_STATE, _COHORT, _COHORT.replace("(round)", "()")),),
        scene="many rounds",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="the first clients always",
        bug="the cohort is always the first of the candidates",
        patches=(Patch(COHORTS, _CHOSEN, "return list(candidates[:size])"),),
        scene="many rounds",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="two cohorts in turn",
        bug="two cohorts take part in turn",
        patches=(Patch(SERVER_STATE, _COHORT, _COHORT.replace("(round)", "(round % 2)")),),
        scene="many rounds",
        audit="server",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="one client always",
        bug="the first client takes part in every round",
        patches=(
            Patch(
                COHORTS,
                _CHOSEN,
                "others = [candidates[int(index)] for index in chosen if index > 0]\n"
                "        return sorted([candidates[0], *others[: size - 1]])",
            ),
        ),
        scene="many rounds",
        audit="server",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="Poisson cohorts replaced by fixed ones",
        bug="every cohort has exactly the expected size",
        patches=(
            Patch(
                COHORTS,
                "joined = np.flatnonzero(generator.random(len(candidates)) < self.rate)",
                "joined = np.sort(generator.permutation(len(candidates))[: round(self.rate * len(candidates))])",
            ),
        ),
        scene="many Poisson cohorts",
        audit="server reports",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="no participation limit",
        bug="clients are drawn after they reached their limit of rounds",
        patches=(Patch("engine/admission.py", "rounds < self._most]", "rounds < 10 * self._most]"),),
        scene="limit of rounds",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="participation not counted",
        bug="a round in which a client took part is not counted against its limit",
        patches=(Patch("engine/admission.py", "self._taken[client] += 1", "self._taken[client] += 0"),),
        scene="limit of rounds",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="constant key",
        bug="the secret key is the same in every run",
        patches=(Patch(STREAMS, _KEY, 'key=b"k" * 32'),),
        scene="rows",
        caught_by=AUDIT | TESTS,
        test="tests/core/test_core_streams.py::test_unseeded_streams_differ_every_time_and_know_it",
    ),
    Mutant(
        name="32-bit key",
        bug="the secret key is made from 32 random bits",
        patches=(Patch(STREAMS, _KEY, "key=hashlib.blake2b(secrets.token_bytes(4), digest_size=32).digest()"),),
        scene="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="32-bit key of a purpose",
        bug="the keys of noise are made from 32 bits of the secret key",
        patches=(
            Patch(STREAMS, "blake2b(purpose.encode(), key=self.key,", "blake2b(purpose.encode(), key=self.key[:4],"),
        ),
        scene="rows",
        caught_by=AUDIT,
    ),
]
