"""Planted bugs of what bounds one unit's influence: clipping, declarations, values that are not finite, divisors."""

from __future__ import annotations

from mutant import Defence, Mutant, Patch

RECEIPTS, BOTH = frozenset({Defence.RECEIPTS}), frozenset({Defence.RECEIPTS, Defence.AUDIT})
AUDIT = frozenset({Defence.AUDIT})
CLIP, GAUSSIAN, NETWORK = "mechanisms/clip.py", "mechanisms/gaussian.py", "engine/fused/network.py"
UPDATES, SERVER, CLIENT = "engine/updates.py", "engine/server.py", "engine/client.py"

BOUND_BUGS = [
    Mutant(
        name="no clip",
        bug="nothing is clipped",
        patches=(Patch(CLIP, "return torch.where(finite, factor,", "return torch.where(finite, torch.ones_like(norms),"),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="no clip, gradients",
        bug="clipping factors are computed and not applied to the gradients",
        patches=(Patch(NETWORK, "scales = factors(norms) *", "scales = torch.ones_like(factors(norms)) *"),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="no clip, upload",
        bug="updates are not clipped",
        patches=(
            Patch(
                UPDATES,
                "noisy = clipped(updates, norms, mechanism, layout, rows=1).double()",
                "noisy = updates.double()",
            ),
        ),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="no clip, server",
        bug="the server adds up updates without clipping them",
        patches=(
            Patch(
                SERVER,
                "for update in clipped(updates, norms, mechanism, self.layout, self.most, self.declared):",
                "for update in updates:",
            ),
        ),
        scene="server, long updates",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="clip at twice the bound",
        bug="rows are clipped at twice the declared bound",
        patches=(Patch(CLIP, "limit = torch.tensor(bound * (1 - margin)", "limit = torch.tensor(2 * bound * (1 - margin)"),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="clip by the first layer",
        bug="a whole row is clipped by the norm of its first layer",
        patches=(Patch(CLIP, "length = norms.square().sum(dim=-1, keepdim=True).sqrt()", "length = norms[..., :1]"),),
        scene="poisson",
        audit="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="norms too small",
        bug="norms are measured a third too small",
        patches=(Patch("core/norms.py", "size = rows.shape[-1]", "rows = rows / 1.5\n    size = rows.shape[-1]"),),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="no sqrt(M)",
        bug="the sensitivity of per-layer clipping leaves out the number of layers",
        patches=(Patch(CLIP, 'bound * math.sqrt(layers) if self.by == "layer" else bound', "bound * math.sqrt(1)"),),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="no sqrt(M), upload",
        bug="the same, where updates are clipped",
        patches=(Patch(CLIP, 'bound * math.sqrt(layers) if self.by == "layer" else bound', "bound * math.sqrt(1)"),),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="no sqrt(M), server",
        bug="the same, where the server clips",
        patches=(Patch(CLIP, 'bound * math.sqrt(layers) if self.by == "layer" else bound', "bound * math.sqrt(1)"),),
        scene="server, long updates",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="sum noise declared as row",
        bug="the noise of one row is drawn on the sum, that of all rows is declared",
        patches=(
            Patch(
                GAUSSIAN,
                "source.add(purpose, addresses, sums, self.sum_std(rows))",
                "source.add(purpose, addresses, sums, self.sigma * self.bound)",
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="sum noise declared as row, server",
        bug="the same at the server",
        patches=(
            Patch(
                GAUSSIAN,
                "source.add(purpose, addresses, sums, self.sum_std(rows))",
                "source.add(purpose, addresses, sums, self.sigma * self.bound)",
            ),
        ),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="row noise in the declaration only",
        bug="the declaration counts the noise of every row where it is drawn once",
        patches=(
            Patch(
                GAUSSIAN,
                "sum_std=self.sum_std(sampling.batch if rows is None else rows),",
                "sum_std=self.sigma * self.bound * math.sqrt(sampling.batch if rows is None else rows),",
            ),
        ),
        scene="noise on the sum",
        audit="noise on the sum",
        caught_by=BOTH,
    ),
    Mutant(
        name="fewer steps declared",
        bug="all local steps are declared as one",
        patches=(
            Patch(
                "method.py",
                "declarations.append(now.declare(place=place, layers=layers, steps=steps, sampling=sampling))",
                "declarations.append(now.declare(place=place, layers=layers, steps=1, sampling=sampling))",
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="NaN passes",
        bug="gradients that are not finite are added up",
        patches=(Patch(NETWORK, "if not math.isfinite(float(norms.sum() + losses.sum())):", "if False:"),),
        scene="enormous records",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="NaN passes, upload",
        bug="updates that are not finite are sent",
        patches=(
            Patch(UPDATES, "return torch.where(finite, torch.cat(parts, dim=-1),", "return torch.where(finite | True, torch.cat(parts, dim=-1),"),
        ),
        scene="enormous updates",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="NaN passes, server",
        bug="updates that are not finite are added up",
        patches=(
            Patch(UPDATES, "return torch.where(finite, torch.cat(parts, dim=-1),", "return torch.where(finite | True, torch.cat(parts, dim=-1),"),
        ),
        scene="enormous updates, server",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="realised divisor, example",
        bug="a sum is divided by the number of records that were drawn",
        patches=(
            Patch(
                CLIENT,
                "return replace(sums, total=sanitiser.noised_sums(sums.total, noise, addresses).to(parameters.dtype))",
                "total = sanitiser.noised_sums(sums.total, noise, addresses).to(parameters.dtype)\n"
                "        drawn = batch.weights.sum(dim=1, keepdim=True).clamp_min(1)\n"
                "        return replace(sums, total=total * draws.declared / drawn)",
            ),
        ),
        scene="poisson",
        audit="poisson",
        caught_by=BOTH,
    ),
    Mutant(
        name="realised divisor, server",
        bug="the sum of updates is divided by the number of clients that took part",
        patches=(
            Patch(
                SERVER,
                "    divisor = method.cohort.at(state.round, method.rounds).divisor(population.clients)\n    parameters, optimiser",
                "    divisor = float(max(tally.clients, 1))\n    parameters, optimiser",
            ),
        ),
        scene="server reports",
        audit="server reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise of the realised batch",
        bug="row noise is drawn for the number of records that were drawn",
        patches=(
            Patch(
                "engine/sanitiser.py",
                "self._mechanism.add_to_sums(sums, rows=self._batch,",
                "self._mechanism.add_to_sums(sums, rows=max(int(self._counts[0, self._witness.steps]), 1),",
            ),
            Patch("engine/sanitiser.py", "        self._draws = 0\n", "        self._draws = 0\n        self._counts = draws.counts\n"),
        ),
        scene="poisson",
        audit="poisson",
        caught_by=RECEIPTS,
    ),
]
