"""Planted bugs of what is drawn: batches, cohorts, keys, and limits on who may be drawn."""

from __future__ import annotations

from mutant import Defence, Mutant, Patch

RECEIPTS, BOTH = frozenset({Defence.RECEIPTS}), frozenset({Defence.RECEIPTS, Defence.AUDIT})
AUDIT, TESTS = frozenset({Defence.AUDIT}), frozenset({Defence.TESTS})
BATCHES, COHORTS, SITES, STREAMS = "parts/batches.py", "parts/cohorts.py", "engine/sites.py", "core/streams.py"
SERVER = "engine/server.py"

DRAW_BUGS = [
    Mutant(
        name="fixed batches for Poisson",
        bug="every batch has exactly the expected size",
        patches=(
            Patch(
                BATCHES,
                "joined = generator.random((steps, records)) < self.size / records",
                "joined = generator.random((steps, records)).argsort(axis=1) < self.size",
            ),
        ),
        scene="poisson",
        audit="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="the first records for Poisson",
        bug="every batch has the same records",
        patches=(
            Patch(
                BATCHES,
                "joined = generator.random((steps, records)) < self.size / records",
                "joined = np.tile(np.arange(records) < self.size, (steps, 1))",
            ),
        ),
        scene="poisson",
        audit="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="one batch for all steps",
        bug="a Poisson batch is drawn once a round and used in all of its steps",
        patches=(
            Patch(
                BATCHES,
                "joined = generator.random((steps, records)) < self.size / records",
                "joined = np.repeat(generator.random((1, records)) < self.size / records, steps, axis=0)",
            ),
        ),
        scene="poisson",
        audit="poisson",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="the same batches in every round",
        bug="a client's Poisson batches are those of its first round",
        patches=(Patch(SITES, "Address(round, client))", "Address(0, client))"),),
        scene="poisson",
        audit="poisson",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="Poisson rate doubled",
        bug="records join with twice the declared probability",
        patches=(
            Patch(
                BATCHES,
                "joined = generator.random((steps, records)) < self.size / records",
                "joined = generator.random((steps, records)) < 2 * self.size / records",
            ),
        ),
        scene="poisson",
        audit="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="partition declared as Poisson",
        bug="shuffled batches are declared as Poisson batches, which amplify",
        patches=(
            Patch(
                BATCHES,
                "return Sampling(self.kind, records, self.size, self.size, uses=-(-steps // (records // self.size)))",
                'return Sampling("poisson", records, self.size, self.size, uses=steps)',
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="the same cohort always",
        bug="the cohort of the first round takes part in all of them",
        patches=(Patch(SERVER, "streams.generator(Purpose.COHORT, Address(state.round))", "streams.generator(Purpose.COHORT, Address())"),),
        scene="many rounds",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="the first clients always",
        bug="the cohort is always the first of the candidates",
        patches=(
            Patch(
                COHORTS,
                "return sorted(candidates[int(index)] for index in chosen)",
                "return list(candidates[:size])",
            ),
        ),
        scene="many rounds",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="two cohorts in turn",
        bug="two cohorts take part in turn",
        patches=(
            Patch(
                SERVER,
                "streams.generator(Purpose.COHORT, Address(state.round))",
                "streams.generator(Purpose.COHORT, Address(state.round % 2))",
            ),
        ),
        scene="many rounds",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="one client always",
        bug="the first client takes part in every round",
        patches=(
            Patch(
                COHORTS,
                "return sorted(candidates[int(index)] for index in chosen)",
                "return sorted({candidates[0], *(candidates[int(index)] for index in chosen[: size - 1])})",
            ),
        ),
        scene="many rounds",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="fixed cohorts for Poisson",
        bug="every cohort has exactly the expected size",
        patches=(
            Patch(
                COHORTS,
                "joined = np.flatnonzero(generator.random(len(candidates)) < self.rate)",
                "joined = np.sort(generator.permutation(len(candidates))[: round(self.rate * len(candidates))])",
            ),
        ),
        scene="server reports",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="constant key",
        bug="the secret key is the same in every run",
        patches=(Patch(STREAMS, "key=secrets.token_bytes(32)", 'key=b"k" * 32'),),
        scene="rows",
        audit="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="32-bit key",
        bug="the secret key is made from 32 random bits",
        patches=(
            Patch(
                STREAMS,
                "key=secrets.token_bytes(32)",
                "key=hashlib.blake2b(secrets.token_bytes(4), digest_size=32).digest()",
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="32-bit key of a purpose",
        bug="the keys of noise are made from 32 bits of the secret key",
        patches=(Patch(STREAMS, "hashlib.blake2b(purpose.encode(), key=self.key,", "hashlib.blake2b(purpose.encode(), key=self.key[:4],"),),
        scene="rows",
        audit="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="no participation limit",
        bug="clients are drawn after they reached their limit of rounds",
        patches=(
            Patch(
                "engine/admission.py",
                "if self._most is None or rounds < self._most]",
                "if self._most is None or rounds < 10 * self._most]",
            ),
        ),
        scene="limit of rounds",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="participation not counted",
        bug="a round in which a client took part is not counted against its limit",
        patches=(Patch("engine/admission.py", "self._taken[client] += 1", "self._taken[client] += 0"),),
        scene="limit of rounds",
        audit=None,
        caught_by=RECEIPTS,
    ),
]
