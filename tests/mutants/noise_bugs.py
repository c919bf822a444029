"""Planted bugs of the noise: missing, of the wrong size or shape, in the wrong place, off its grid, before the clip."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import (
    BOTH,
    CLIPPED_AT_SERVER,
    CLIPPED_UPLOAD,
    NOISE,
    NOISED,
    RECEIPTS,
    SANITISER,
    SERVER,
    UPDATES,
    first_half,
    noised,
    sized,
    with_cells,
)

_WITHOUT_GRID = noised("sums += source.integers(purpose, addresses, sums.shape[1]) * (self.sum_std(rows) / 2**24)")

_MISSING = [
    Mutant(
        name="no noise, example",
        bug="gradients get no noise",
        patches=(noised(f"if purpose is not Purpose.EXAMPLE_NOISE:\n    {NOISED}"),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, example",
        bug="gradients get half of their noise",
        patches=(sized("EXAMPLE_NOISE", 0.5),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, upload",
        bug="updates get half of their noise",
        patches=(sized("UPLOAD_NOISE", 0.5),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, server",
        bug="the sum of updates gets half of its noise",
        patches=(sized("SERVER_NOISE", 0.5),),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="half noise, source",
        bug="the source of all noise draws half as wide, on a grid half as wide",
        patches=(Patch(NOISE, "if values.is_contiguous()", "std = std / 2\n        if values.is_contiguous()"),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise in every other step",
        bug="every other local step has no noise",
        patches=(noised(f"if addresses[0].step % 2 == 0:\n    {NOISED}"),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise moved between steps",
        bug="every other step has little noise, the others more, so that all of a round have the right size",
        patches=(with_cells("cells *= 0.1 if addresses[0].step % 2 else 1.99**0.5"),),
        scene="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="noise for one of a chunk",
        bug="of clients that are computed together only the first gets noise",
        patches=(noised("source.add(purpose, addresses[:1], sums[:1], self.sum_std(rows))"),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="uniform noise",
        bug="noise is uniform, of the right standard deviation",
        patches=(with_cells("cells = (torch.rand(sums.shape, dtype=torch.float64) - 0.5) * 12**0.5 * 2**24"),),
        scene="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="noise of one size",
        bug="every coordinate gets plus or minus one standard deviation",
        patches=(with_cells("cells = cells.sign() * 2**24"),),
        scene="upload",
        caught_by=RECEIPTS,
    ),
]

_BEFORE_CLIPPING = [
    Mutant(
        name="noise before clipping, example",
        bug="sums of gradients that were not clipped are noised and then clipped as a whole",
        patches=(
            Patch(
                SANITISER,
                "self.factors = WatchedLimit(mechanism.limit(below),",
                'self.factors = WatchedLimit(type(mechanism.limit())(1e30, "flat"),',
            ),
            Patch(
                SANITISER,
                "self._witness.after(seen, sums)\n",
                "sums.mul_((self._declared.sensitivity / sums.norm(dim=-1, keepdim=True)).clamp_max(1))\n"
                "        self._witness.after(seen, sums)\n",
            ),
        ),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise before clipping, upload",
        bug="updates are noised and then clipped",
        patches=(
            Patch(UPDATES, CLIPPED_UPLOAD, "noisy = updates.double()"),
            Patch(
                UPDATES,
                "    witness.after(seen, noisy)",
                "    noisy = clipped(noisy, update_norms(noisy, layout), mechanism, layout, rows=1)\n"
                "    witness.after(seen, noisy)",
            ),
        ),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise before clipping, server",
        bug="the sum of updates that were not clipped is noised and then clipped",
        patches=(
            Patch(SERVER, CLIPPED_AT_SERVER, "for update in updates:"),
            Patch(
                SERVER,
                "    witness.after(seen, sums)",
                "    sums.mul_((did.sensitivity / sums.norm()).clamp_max(1))\n    witness.after(seen, sums)",
            ),
        ),
        scene="server",
        caught_by=BOTH,
    ),
]

_MISPLACED = [
    Mutant(
        name="first half, example",
        bug="only the first half of a gradient's coordinates gets noise",
        patches=(first_half("EXAMPLE_NOISE"),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half scaled, example",
        bug="only the first half of a gradient's coordinates gets noise, so much that all together have the right size",
        patches=(first_half("EXAMPLE_NOISE", 2**0.5),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half, upload",
        bug="only the first half of an update's coordinates gets noise",
        patches=(first_half("UPLOAD_NOISE"),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half scaled, upload",
        bug="only the first half of an update's coordinates gets noise, so much that all together have the right size",
        patches=(first_half("UPLOAD_NOISE", 2**0.5),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half, server",
        bug="only the first half of the sum's coordinates gets noise",
        patches=(first_half("SERVER_NOISE"),),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="first half scaled, server",
        bug="only the first half of the sum's coordinates gets noise, so much that all together have the right size",
        patches=(first_half("SERVER_NOISE", 2**0.5),),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="no noise on the last layer",
        bug="the last layer, which tells most of labels, gets no noise",
        patches=(noised("source.add(purpose, addresses, sums[:, :-387], self.sum_std(rows))"),),
        scene="rows",
        caught_by=BOTH,
    ),
]

_OFF_THE_GRID = [
    Mutant(
        name="grid skipped, example",
        bug="floating-point noise of PyTorch is added to floating-point sums",
        patches=(noised("import torch\nsums.add_(torch.randn(sums.shape), alpha=self.sum_std(rows))"),),
        scene="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="grid skipped, upload",
        bug="noise on its grid is added to updates that were not rounded to it",
        patches=(_WITHOUT_GRID,),
        scene="upload",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="grid skipped, server",
        bug="noise on its grid is added to a sum that was not rounded to it",
        patches=(_WITHOUT_GRID,),
        scene="server",
        caught_by=RECEIPTS,
    ),
]

NOISE_BUGS = _MISSING + _BEFORE_CLIPPING + _MISPLACED + _OFF_THE_GRID
