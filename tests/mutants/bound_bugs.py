"""Planted bugs of what bounds one unit's influence: clipping, declarations, values that are not finite, divisors."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import (
    BATCHES,
    BOTH,
    CLIENT,
    CLIP,
    CLIPPED_AT_SERVER,
    CLIPPED_UPLOAD,
    GAUSSIAN,
    NETWORK,
    NOISED,
    NOISED_SUMS,
    RECEIPTS,
    SANITISER,
    SERVER,
    THROUGH_STAGES,
    UPDATES,
    noised,
)

_NO_LAYERS = Patch(CLIP, 'return bound * math.sqrt(layers) if self.by == "layer" else bound', "return bound")
_ONE_ROW = noised(NOISED.replace("self.sum_std(rows)", "self.sigma * self.bound"))
_NOT_FINITE = Patch(
    UPDATES,
    "return torch.where(finite, torch.cat(parts, dim=-1), updates.new_zeros(()))",
    "return torch.cat(parts, dim=-1)",
)

_CLIPPING = [
    Mutant(
        name="no clip",
        bug="nothing is clipped",
        patches=(Patch(CLIP, "return Limit(bound * (1 - margin), self.by)", "return Limit(1e30, self.by)"),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="no clip, gradients",
        bug="clipping factors are computed and not applied to the gradients",
        patches=(
            # Else the comparison with autograd at the start would see it, and another path would train.
            Patch("engine/batched.py", "return disagreement(fused, model, shape, objective) is None", "return True"),
            Patch(NETWORK, "scales = factors(found.norms) *", "scales = torch.ones_like(factors(found.norms)) *"),
            Patch(
                NETWORK,
                "factors.watch(found.norms, scales)\n",
                "factors.watch(found.norms, scales)\n            scales = found.counted.expand_as(scales)\n",
            ),
            Patch(
                THROUGH_STAGES,
                "self._passes.collect(factors, self._total)",
                "self._passes.collect([weights] * len(factors), self._total)",
            ),
        ),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="no clip, upload",
        bug="updates are not clipped",
        patches=(Patch(UPDATES, CLIPPED_UPLOAD, "noisy = updates.double()"),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="no clip, server",
        bug="the server adds up updates without clipping them",
        patches=(Patch(SERVER, CLIPPED_AT_SERVER, "for update in updates:"),),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="clip at twice the bound",
        bug="rows are clipped at twice the declared bound",
        patches=(Patch(CLIP, "Limit(bound * (1 - margin)", "Limit(2 * bound * (1 - margin)"),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="clip by the first layer",
        bug="a whole row is clipped by the norm of its first layer",
        patches=(
            Patch(CLIP, "length = norms.square().sum(dim=-1, keepdim=True).sqrt()", "length = norms[..., :1]"),
            Patch(THROUGH_STAGES, "[first, *[others] * len(norms)]", "[first]"),
        ),
        scene="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="norms too small",
        bug="norms are measured a third too small",
        patches=(Patch("core/norms.py", "size = rows.shape[-1]", "rows = rows / 1.5\n    size = rows.shape[-1]"),),
        scene="upload",
        caught_by=BOTH,
    ),
]

_DECLARED = [
    Mutant(
        name="no sqrt(M)",
        bug="the sensitivity of per-layer clipping leaves out the number of layers",
        patches=(_NO_LAYERS,),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="no sqrt(M), upload",
        bug="the same, where updates are clipped",
        patches=(_NO_LAYERS,),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="no sqrt(M), server",
        bug="the same, where the server clips",
        patches=(_NO_LAYERS,),
        scene="server",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="sum noise declared as row",
        bug="the noise of one row is drawn on the sum, that of all rows is declared",
        patches=(_ONE_ROW,),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="sum noise declared as row, server",
        bug="the same at the server",
        patches=(_ONE_ROW,),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="sum noise declared as row, declaration",
        bug="the declaration counts the noise of every row where it is drawn once",
        patches=(
            Patch(
                GAUSSIAN,
                "sum_std=self.sum_std(sampling.batch if rows is None else rows),",
                "sum_std=self.sigma * self.bound * math.sqrt(sampling.batch if rows is None else rows),",
            ),
        ),
        scene="noise on the sum",
        caught_by=BOTH,
    ),
    Mutant(
        name="fewer steps declared",
        bug="all local steps are declared as one",
        patches=(
            Patch(
                "method.py",
                "now.declare(place=place, layers=layers, steps=steps, sampling=sampling)",
                "now.declare(place=place, layers=layers, steps=1, sampling=sampling)",
            ),
        ),
        scene="rows",
        caught_by=RECEIPTS,
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
        caught_by=BOTH,
    ),
]

_NOT_FINITE_OR_COUNTED = [
    Mutant(
        name="NaN passes, example",
        bug="gradients that are not finite are added up",
        patches=(
            # Where the C pass clips, finite deltas of an enormous record are multiplied with zero: nothing is added up.
            Patch(NETWORK, "if isinstance(passes, GroupByGroup) and isinstance(factors, WatchedLimit):", "if False:"),
            Patch(
                NETWORK,
                "if math.isfinite(float(norms.sum() + losses.sum())):",
                "norms = norms.nan_to_num(0.0, 0.0)\n        if True:",
            ),
        ),
        scene="enormous records",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="NaN passes, upload",
        bug="updates that are not finite are sent",
        patches=(_NOT_FINITE,),
        scene="enormous updates",
        audit="upload",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="NaN passes, server",
        bug="updates that are not finite are added up",
        patches=(_NOT_FINITE,),
        scene="enormous updates, server",
        audit="server",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="realised divisor, example",
        bug="a sum is divided by the number of records that were drawn",
        patches=(
            Patch(
                CLIENT,
                NOISED_SUMS,
                "total = sanitiser.noised_sums(sums.total, noise, addresses).to(parameters.dtype)\n"
                "        drawn = batch.weights.sum(dim=1, keepdim=True).clamp_min(1)\n"
                "        total = total * draws.declared / drawn",
            ),
        ),
        scene="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="realised divisor, server",
        bug="the sum of updates is divided by the number of clients that took part",
        patches=(
            Patch(
                SERVER,
                "divisor(population.clients)\n    parameters, optimiser = method.aggregate.apply(",
                "divisor(population.clients)\n    divisor = float(max(tally.clients, 1))\n"
                "    parameters, optimiser = method.aggregate.apply(",
            ),
        ),
        scene="server reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise of the realised batch",
        bug="row noise is drawn for the number of records that were drawn",
        patches=(
            Patch(SANITISER, "add_to_sums(sums, rows=self._batch,", "add_to_sums(sums, rows=self._realised(),"),
            Patch(
                SANITISER,
                "        self._mechanism, self._clients,",
                "        self._counts = draws.counts\n        self._mechanism, self._clients,",
            ),
            Patch(
                SANITISER,
                "    def _watch(self",
                "    def _realised(self) -> int:\n"
                "        return max(int(self._counts[0, self._witness.steps]), 1)\n\n    def _watch(self",
            ),
        ),
        scene="poisson",
        caught_by=BOTH,
    ),
]

BOUND_BUGS = _CLIPPING + _DECLARED + _NOT_FINITE_OR_COUNTED
