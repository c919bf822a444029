"""Planted bugs of the noise: missing, of the wrong size, in the wrong place, used again, off its grid."""

from __future__ import annotations

from mutant import Defence, Mutant, Patch

BOTH = frozenset({Defence.RECEIPTS, Defence.AUDIT})
GAUSSIAN, NOISE, CLIENT = "mechanisms/gaussian.py", "mechanisms/noise.py", "engine/client.py"
UPDATES, SERVER, SANITISER = "engine/updates.py", "engine/server.py", "engine/sanitiser.py"

ADDED = "source.add(purpose, addresses, sums, self.sum_std(rows))"


def added(instead: str) -> tuple[Patch, ...]:
    """Another way to noise sums."""
    return (Patch(GAUSSIAN, ADDED, instead),)


def only(purpose: str, factor: str) -> tuple[Patch, ...]:
    """Noise of another size at one place."""
    return added(
        f"source.add(purpose, addresses, sums, self.sum_std(rows) * ({factor} if purpose is Purpose.{purpose} else 1))"
    )


def first_half(purpose: str, factor: str = "1") -> tuple[Patch, ...]:
    """Noise on the first half of the coordinates at one place."""
    return added(
        f"source.add(purpose, addresses, sums[:, : sums.shape[1] // 2] if purpose is Purpose.{purpose} else sums,"
        f" self.sum_std(rows) * {factor})"
    )


STEP_ADDRESS = "addresses = [Address(broadcast.round, client, step) for client in clients]"
UPLOAD_ADDRESS = "addresses = [Address(round, client) for client in clients]\n    norms ="
SERVER_ADDRESS = "rows, addresses = tally.declared, [Address(state.round)]"

MISSING = [
    Mutant(
        name="no noise, example",
        bug="gradients get no noise",
        patches=added("source.add(purpose, addresses, sums, self.sum_std(rows)) if purpose is not Purpose.EXAMPLE_NOISE else None"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, example",
        bug="gradients get half of their noise",
        patches=only("EXAMPLE_NOISE", "0.5"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, upload",
        bug="updates get half of their noise",
        patches=only("UPLOAD_NOISE", "0.5"),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, server",
        bug="the sum of updates gets half of its noise",
        patches=only("SERVER_NOISE", "0.5"),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, source",
        bug="the source of all noise draws half as wide, on a grid half as wide",
        patches=(Patch(NOISE, "if values.is_contiguous():", "std = std / 2\n        if values.is_contiguous():"),),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise in every other step",
        bug="every other local step has no noise",
        patches=added("source.add(purpose, addresses, sums, self.sum_std(rows)) if addresses[0].step % 2 == 0 else None"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise moved between steps",
        bug="every other local step has a tenth of its noise, the others more, so that the round's total is right",
        patches=added("source.add(purpose, addresses, sums, self.sum_std(rows) * (0.1 if addresses[0].step % 2 else 1.99**0.5))"),
        scene="rows",
        audit=None,
        caught_by=frozenset({Defence.RECEIPTS}),
    ),
    Mutant(
        name="noise for one of a chunk",
        bug="of clients that are computed together only the first gets noise",
        patches=added("source.add(purpose, addresses[:1], sums[:1], self.sum_std(rows))"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise before clipping, upload",
        bug="updates are noised and then clipped",
        patches=(
            Patch(
                UPDATES,
                "noisy = clipped(updates, norms, mechanism, layout, rows=1).double()",
                "noisy = updates.double()",
            ),
            Patch(
                UPDATES,
                "    witness.after(seen, noisy)",
                "    noisy = clipped(noisy, update_norms(noisy, layout), mechanism, layout, rows=1)\n"
                "    witness.after(seen, noisy)",
            ),
        ),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise before clipping, example",
        bug="sums of gradients that were not clipped are noised and then clipped as a whole",
        patches=(
            Patch(
                SANITISER,
                "factors = self._mechanism.factors(norms, self._margin)",
                "factors = torch.ones_like(norms)",
            ),
            Patch(
                SANITISER,
                "self._witness.after(seen, sums)\n        self._draws += sums.shape",
                "longest = self._mechanism.clip.sensitivity(self._mechanism.bound, self._layout.group_count)\n"
                "        sums.mul_((longest / sums.norm(dim=-1, keepdim=True)).clamp_max(1))\n"
                "        self._witness.after(seen, sums)\n        self._draws += sums.shape",
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise before clipping, server",
        bug="the sum of updates that were not clipped is noised and then clipped",
        patches=(
            Patch(
                SERVER,
                "for update in clipped(updates, norms, mechanism, self.layout, self.most, self.declared):",
                "for update in updates:",
            ),
            Patch(
                SERVER,
                "    witness.after(seen, sums)",
                "    sums.mul_((longest / sums.norm()).clamp_max(1))\n    witness.after(seen, sums)",
            ),
        ),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
]

MISPLACED = [
    Mutant(
        name="first half, example",
        bug="only the first half of a gradient's coordinates gets noise",
        patches=first_half("EXAMPLE_NOISE"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half scaled, example",
        bug="only the first half of a gradient's coordinates gets noise, scaled so that all of it has the right size",
        patches=first_half("EXAMPLE_NOISE", "2**0.5"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half, upload",
        bug="only the first half of an update's coordinates gets noise",
        patches=first_half("UPLOAD_NOISE"),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half scaled, upload",
        bug="only the first half of an update's coordinates gets noise, scaled to the right size",
        patches=first_half("UPLOAD_NOISE", "2**0.5"),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half, server",
        bug="only the first half of the sum's coordinates gets noise",
        patches=first_half("SERVER_NOISE"),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half scaled, server",
        bug="only the first half of the sum's coordinates gets noise, scaled to the right size",
        patches=first_half("SERVER_NOISE", "2**0.5"),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="no noise on the last layer",
        bug="the last layer, which tells most of labels, gets no noise",
        patches=added("source.add(purpose, addresses, sums[:, :-99], self.sum_std(rows))"),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise copied between halves",
        bug="the second half of the coordinates has the noise of the first",
        patches=added(
            "half = sums.shape[1] // 2\n"
            "            plain = sums.clone()\n"
            "            source.add(purpose, addresses, sums, self.sum_std(rows))\n"
            "            sums[:, half : 2 * half] = plain[:, half : 2 * half] + (sums - plain)[:, :half]"
        ),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
]

REUSED = [
    Mutant(
        name="noise reused across steps",
        bug="all local steps of a round have the same noise",
        patches=(Patch(CLIENT, STEP_ADDRESS, STEP_ADDRESS.replace(", step)", ", 0)")),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across clients",
        bug="all clients have the same noise",
        patches=(Patch(CLIENT, STEP_ADDRESS, STEP_ADDRESS.replace(", client,", ", 0,")),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across rounds",
        bug="a client has the same noise in every round",
        patches=(Patch(CLIENT, STEP_ADDRESS, STEP_ADDRESS.replace("broadcast.round", "0")),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across clients, upload",
        bug="all updates of a round have the same noise",
        patches=(Patch(UPDATES, UPLOAD_ADDRESS, UPLOAD_ADDRESS.replace(", client)", ")")),),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across rounds, upload",
        bug="a client's updates have the same noise in every round",
        patches=(Patch(UPDATES, UPLOAD_ADDRESS, UPLOAD_ADDRESS.replace("(round,", "(0,")),),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across rounds, server",
        bug="the sum of updates has the same noise in every round",
        patches=(Patch(SERVER, SERVER_ADDRESS, SERVER_ADDRESS.replace("state.round", "")),),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise negated in the next round, server",
        bug="the noise of every other round is taken off in the next",
        patches=added(
            "addresses = [Address(one.round // 2, one.client, one.step) for one in addresses]\n"
            "            plain = sums.clone()\n"
            "            source.add(purpose, addresses, sums, self.sum_std(rows))\n"
            "            if source.__dict__.setdefault('times', 0) % 2:\n"
            "                sums.copy_(2 * plain - sums)\n"
            "            source.__dict__['times'] += 1"
        ),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="one key for all purposes",
        bug="the noise of gradients and of updates comes from the same stream",
        patches=(
            Patch(
                "core/streams.py",
                "return hashlib.blake2b(purpose.encode(), key=self.key, digest_size=32).digest()",
                'return hashlib.blake2b(b"noise", key=self.key, digest_size=32).digest()',
            ),
        ),
        scene="examples and uploads",
        audit=None,
        caught_by=frozenset({Defence.RECEIPTS}),
    ),
]

GRID = [
    Mutant(
        name="grid skipped",
        bug="floating-point noise is added to floating-point sums",
        patches=(
            Patch(
                NOISE,
                "if values.is_contiguous():",
                "if std > 0:\n            values.add_(torch.randn(values.shape, dtype=values.dtype), alpha=std)\n"
                "        elif values.is_contiguous():",
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=frozenset({Defence.RECEIPTS}),
    ),
    Mutant(
        name="grid skipped, upload",
        bug="noise on its grid is added to updates that were not rounded to it",
        patches=added(
            "from fedveil.mechanisms.noise import STD_CELLS\n"
            "            cells = source.integers(purpose, addresses, sums.shape[1])\n"
            "            sums += cells * (self.sum_std(rows) / STD_CELLS)"
        ),
        scene="upload",
        audit="upload",
        caught_by=frozenset({Defence.RECEIPTS}),
    ),
    Mutant(
        name="grid skipped, server",
        bug="noise on its grid is added to a sum that was not rounded to it",
        patches=added(
            "from fedveil.mechanisms.noise import STD_CELLS\n"
            "            cells = source.integers(purpose, addresses, sums.shape[1])\n"
            "            sums += cells * (self.sum_std(rows) / STD_CELLS)"
        ),
        scene="server",
        audit="server",
        caught_by=frozenset({Defence.RECEIPTS}),
    ),
    Mutant(
        name="uniform noise",
        bug="noise is uniform, of the right standard deviation",
        patches=added(
            "from fedveil.mechanisms.noise import STD_CELLS\n"
            "            cells = (torch.rand(sums.shape, dtype=torch.float64) - 0.5) * 12**0.5 * STD_CELLS\n"
            "            grid = self.sum_std(rows) / STD_CELLS\n"
            "            sums.copy_(((sums.double() / grid).round() + cells.round()) * grid)"
        ) + (Patch(GAUSSIAN, "from torch import Tensor", "import torch\nfrom torch import Tensor"),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
]

NOISE_BUGS = MISSING + MISPLACED + REUSED + GRID
