"""Fed-CDP, its variants and PriFedSync: what the engine computes is what the papers' pseudo-code says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pseudocode import CLIENTS, NETWORKS, Round, World, same
from torch import Tensor

from fedveil.core.streams import Purpose
from fedveil.core.types import View
from fedveil.engine.personal_models import PersonalModels
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant, Exponential, Linear, Staircase
from fedveil.method import Method
from fedveil.parts.batches import AllocatedBatch, BatchSampler, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import FixedSize, PoissonCohort
from fedveil.parts.optimisers import Sgd
from fedveil.parts.personal import Attention, Identity, Interpolated
from fedveil.parts.stopping import Stop
from fedveil.zoo import FED_CDP, FED_CDP_ALLOCATED, FED_CDP_BATCH, FED_CDP_CALIBRATED, FED_CDP_DECAY, PRIFEDSYNC

BATCH, STEPS, COHORT = 4, 3, 4
networks = pytest.mark.parametrize("network", list(NETWORKS))


def tiny(
    method: Method, sigma: float, *, rounds: int = 2, rate: float = 0.05, each_row: bool = False, **changes: Any
) -> Method:
    """The preset with small cohorts and batches; its mechanism keeps everything but (where told) its noise."""
    assert method.example is not None
    parts: dict[str, Any] = {
        "cohort": FixedSize(COHORT),
        "batch": PartitionBatch(BATCH),
        "local": replace(method.local, steps=STEPS, rate=Constant(rate)),
        "example": replace(method.example, sigma=sigma, each_row=each_row),
        "stop": Stop(rounds),
    }
    return replace(method, **{**parts, **changes})


def fed_cdp(
    world: World,
    sigma: float,
    bounds: list[float],
    *,
    rate: float = 0.05,
    rows: bool = False,
    once: bool = False,
    sampler: BatchSampler | None = None,
) -> list[Round]:
    """Wei et al. (2021), Algorithm 2. `rows`: each row's own noise is drawn; `once`: noise once per batch."""
    found, weights = [], world.start
    for t, bound in enumerate(bounds):
        cohort, updates = world.cohort(FixedSize(COHORT), t), []
        for i in cohort:
            local = weights
            for step, batch in enumerate(world.batches(sampler or PartitionBatch(BATCH), t, i, STEPS)):
                total = torch.zeros(world.size, dtype=torch.float64)
                for record in batch:
                    total = total + world.clip_layers(world.gradient(local, [record]), bound)
                if rows:
                    draws = world.normal(Purpose.ROW_NOISE, t, i, step, BATCH * world.size).view(BATCH, world.size)
                    for draw in draws:
                        total = total + sigma * bound * draw
                else:  # B independent N(0, σ²C²) are one N(0, Bσ²C²)
                    spread = sigma * bound * (1.0 if once else math.sqrt(BATCH))
                    total = total + spread * world.normal(Purpose.EXAMPLE_NOISE, t, i, step)
                local = local - rate * total / BATCH
            updates.append(local - weights)
        weights = weights + sum(updates, torch.zeros_like(weights)) / COHORT
        found.append(Round(cohort, updates, weights))
    return found


def mixed(world: World) -> None:
    """The test means something only if some rows were clipped and some were not."""
    assert 0.1 < sum(world.clipped) / len(world.clipped) < 0.98, sum(world.clipped) / len(world.clipped)


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_fed_cdp_is_algorithm_2_with_the_rows_noises_drawn_at_once(network: str, sigma: float) -> None:
    world = World(network, scale=8.0)
    same(world, fed_cdp(world, sigma, [4.0, 4.0]), world.run(tiny(FED_CDP, sigma)))
    mixed(world)


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
@pytest.mark.parametrize("seen", [False, True])
def test_fed_cdp_with_noise_on_each_row_is_algorithm_2_to_the_letter(network: str, sigma: float, seen: bool) -> None:
    world = World(network, scale=8.0)
    closed = world.run(tiny(FED_CDP, sigma, each_row=True), on_device=seen)
    same(world, fed_cdp(world, sigma, [4.0, 4.0], rows=True), closed)
    for done in closed:
        assert len([o for o in done.observations if o.view is View.ON_DEVICE]) == COHORT * STEPS * seen


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_looking_at_rows_changes_nothing_where_the_noise_is_drawn_at_once(network: str, sigma: float) -> None:
    world = World(network, scale=8.0)
    same(world, fed_cdp(world, sigma, [4.0, 4.0]), world.run(tiny(FED_CDP, sigma), on_device=True))


@pytest.mark.parametrize("sigma", [6.0, 0.02])
@pytest.mark.parametrize("each_row", [False, True])
def test_the_rows_a_device_holds_are_each_clipped_and_noised_only_one_by_one(sigma: float, each_row: bool) -> None:
    world = World(scale=8.0)
    (done, _) = world.run(tiny(FED_CDP, sigma, each_row=each_row), on_device=True)
    for seen in [o for o in done.observations if o.view is View.ON_DEVICE and o.step == 0]:
        batch = world.batches(PartitionBatch(BATCH), 0, seen.client, STEPS)[0]
        draws = world.normal(Purpose.ROW_NOISE, 0, seen.client, 0, BATCH * world.size).view(BATCH, world.size)
        for row, record, draw in zip(seen.tensors.double(), batch, draws, strict=True):
            mine = world.clip_layers(world.gradient(world.start, [record]), 4.0) + each_row * sigma * 4.0 * draw
            assert (row - mine).norm() <= 2e-3 * mine.norm()
    mixed(world)


@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_fed_cdp_decay_clips_at_6_in_the_first_round_and_at_2_in_the_last(sigma: float) -> None:
    world = World(scale=8.0)
    method = tiny(FED_CDP_DECAY, sigma, rounds=3)
    same(world, fed_cdp(world, sigma, [6.0, 4.0, 2.0]), world.run(method))
    mixed(world)


@pytest.mark.parametrize(
    ("schedule", "bounds"),
    [
        (Linear(5.0, 1.0), [5.0, 3.0, 1.0]),
        (Exponential(8.0, 2.0), [8.0, 4.0, 2.0]),
        (Staircase(6.0, 0.5, every=2), [6.0, 6.0, 3.0]),
        (Staircase(6.0, 0.5, every=1), [6.0, 3.0, 1.5]),
    ],
    ids=["linear", "exponential", "staircase of two", "staircase"],
)
@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_fed_cdp_follows_every_decay(schedule: Exponential, bounds: list[float], sigma: float) -> None:
    world, method = World(scale=8.0), tiny(FED_CDP, sigma, rounds=3)
    assert method.example is not None
    method = replace(method, example=replace(method.example, clip=Clip(schedule, by="layer")))
    same(world, fed_cdp(world, sigma, bounds), world.run(method))
    mixed(world)


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_fed_cdp_batch_is_algorithm_2_with_noise_once_per_batch(network: str, sigma: float) -> None:
    world = World(network, scale=8.0)
    same(world, fed_cdp(world, sigma, [4.0, 4.0], once=True), world.run(tiny(FED_CDP_BATCH, sigma)))


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_fed_cdp_allocated_is_algorithm_2_over_batches_of_any_size_and_the_declared_one_as_divisor(
    network: str, sigma: float
) -> None:
    world, sampler, steps = World(network, scale=8.0), AllocatedBatch(BATCH), STEPS
    held = [record for batch in world.batches(sampler, 0, 0, steps) for record in batch]
    assert len(held) == len(set(map(str, held))), "no record twice in a round"
    closed = world.run(tiny(FED_CDP_ALLOCATED, sigma, batch=sampler))
    same(world, fed_cdp(world, sigma, [4.0, 4.0], sampler=sampler), closed)


@networks
@pytest.mark.parametrize("sigma", [1.0, 0.02])
def test_fed_cdp_calibrated_is_poisson_batches_clipped_flat_over_the_expected_size_and_momentum(
    network: str, sigma: float
) -> None:
    world, sampler, cohort_size, rate = World(network), PoissonBatch(BATCH), 3, 0.1
    cohort = FixedSize(cohort_size, most=1)  # the preset's limit of rounds for a client, small
    method, bound = tiny(FED_CDP_CALIBRATED, sigma, rate=rate, batch=sampler, cohort=cohort), 1.0
    assert method.example is not None
    closed = world.run(replace(method, example=replace(method.example, clip=Clip(Constant(bound)))))
    expected, weights, allowed, sizes = [], world.start, list(range(CLIENTS)), set()
    velocity = torch.zeros_like(weights)
    for t in range(2):
        drawn, updates = world.cohort(cohort, t, allowed), []
        for i in drawn:
            local = weights
            for step, batch in enumerate(world.batches(sampler, t, i, STEPS)):
                total = sigma * bound * world.normal(Purpose.EXAMPLE_NOISE, t, i, step)
                for record in batch:
                    total = total + world.clip(world.gradient(local, [record]), bound)
                local = local - rate * total / BATCH
                sizes.add(len(batch))
            updates.append(local - weights)
        velocity = 0.9 * velocity + sum(updates, torch.zeros_like(weights)) / cohort_size
        weights = weights + velocity
        expected.append(Round(drawn, updates, weights))
        allowed = [i for i in allowed if i not in drawn]
    assert len(sizes) > 2, "batches of one size only would not tell the declared size from the realised one"
    same(world, expected, closed)
    mixed(world)


def prifedsync(
    world: World,
    p: float,
    sigma: float,
    alpha: float | None,
    rate: float = 0.001,
    attention: tuple[float, float] | None = None,
    rounds: int = 2,
    adam: bool = True,
) -> tuple[list[Round], dict[int, Tensor]]:
    """Zheng et al. (2021), Algorithms 1 and 2 (or with Adam in its place), η = 1, the declared p·m for |Ω|.

    The helper is made when a client pulls it, from the then current global model; one that never trained pulls that.
    `alpha` None is F_i = identity.
    """
    found, shared, own = [], world.start, dict[int, Tensor]()
    for t in range(rounds):
        omega, sent = world.cohort(PoissonCohort(p), t), []
        models = {i: own.get(i, shared) for i in omega}
        for i in omega:
            if attention is not None:
                helper = attentive(models, i, *attention)
            elif alpha is None or i not in own:
                helper = shared
            else:
                helper = (1 - alpha) * own[i] + alpha * shared
            w, m, v = helper, torch.zeros_like(helper), torch.zeros_like(helper)
            for k, batch in enumerate(world.batches(WithoutReplacement(BATCH), t, i, STEPS)):
                noisy = math.sqrt(4 * 1.0**2 * sigma**2) * world.normal(Purpose.EXAMPLE_NOISE, t, i, k)
                for record in batch:
                    noisy = noisy + world.clip(world.gradient(w, [record]), 1.0)
                g = noisy / BATCH
                if not adam:
                    w = w - rate * g
                    continue
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g  # Kingma and Ba (2015), Algorithm 1
                w = w - rate * (m / (1 - 0.9 ** (k + 1))) / ((v / (1 - 0.999 ** (k + 1))).sqrt() + 1e-8)
            sent.append(w)
        updates = [w - shared for w in sent]
        shared = shared + sum(updates, torch.zeros_like(shared)) / (p * CLIENTS)
        own |= dict(zip(omega, sent, strict=True))
        found.append(Round(omega, updates, shared))
    return found, own


def attentive(models: dict[int, Tensor], i: int, alpha: float, temperature: float) -> Tensor:
    """(1 − α)·w_i + α·Σ_j a_ij·w_j, a_ij ∝ exp(−‖w_i − w_j‖²/(τ·d²)) over the others of the cohort."""
    others = [j for j in models if j != i]
    pairs = [float((models[a] - models[b]).square().sum()) for a in models for b in models if a != b]
    scale = sum(pairs) / max(len(pairs), 1)
    distances = [float((models[i] - models[j]).square().sum()) for j in others]
    scores = [math.exp(-distance / (temperature * scale)) if scale > 0 else 1.0 for distance in distances]
    mixture = sum((score / sum(scores) * models[j] for score, j in zip(scores, others, strict=True)), 0.0)
    return (1 - alpha) * models[i] + alpha * mixture


def same_personal(world: World, own: dict[int, Tensor], kept: PersonalModels, shared: Tensor) -> None:
    for client in range(CLIENTS):
        mine = own.get(client)
        model = kept.model(client, shared.float()).double()
        if mine is None:
            assert torch.equal(model, shared.float().double())
        else:
            assert (model - mine).norm() <= 2e-3 * (mine - world.start).norm()


@pytest.mark.parametrize("p", [1.0, 0.5])
@pytest.mark.parametrize("sigma", [1.0, 0.02])
def test_prifedsync_with_noisy_sgd_is_algorithm_2_to_the_letter(p: float, sigma: float, tmp_path: Path) -> None:
    world, sampler = World(), WithoutReplacement(BATCH)
    local = replace(PRIFEDSYNC.local, optimiser=Sgd(), steps=STEPS, rate=Constant(0.1))
    method = tiny(PRIFEDSYNC, 2 * sigma, cohort=PoissonCohort(p), batch=sampler, local=local, rounds=3)
    kept = PersonalModels(method.personal, tmp_path)
    expected, own = prifedsync(world, p, sigma, 0.1, rate=0.1, rounds=3, adam=False)
    same(world, expected, world.run(method, kept))
    same_personal(world, own, kept, expected[-1].model)
    mixed(world)


@networks
@pytest.mark.parametrize(("p", "alpha"), [(1.0, 0.1), (0.5, 0.1), (0.5, 0.7)])
@pytest.mark.parametrize("sigma", [1.0, 0.02])
def test_prifedsync_is_algorithms_1_and_2(network: str, p: float, alpha: float, sigma: float, tmp_path: Path) -> None:
    world = World(network)
    assert PRIFEDSYNC.example is not None
    assert PRIFEDSYNC.example.sigma == 2.0  # the paper's σ = 1 with the replace-one factor
    method = tiny(PRIFEDSYNC, 2 * sigma, rate=0.001, cohort=PoissonCohort(p), batch=WithoutReplacement(BATCH), rounds=3)
    method = method if alpha == 0.1 else replace(method, personal=Interpolated(alpha))
    kept = PersonalModels(method.personal, tmp_path)
    expected, own = prifedsync(world, p, sigma, alpha, rounds=3)
    same(world, expected, world.run(method, kept))
    same_personal(world, own, kept, expected[-1].model)
    mixed(world)
    if p < 1:
        assert len({len(done.cohort) for done in expected} | {p * CLIENTS}) > 1, "|Ω| must differ from p·m somewhere"


def test_at_p_1_the_global_model_is_the_plain_mean_of_the_clients_models(tmp_path: Path) -> None:
    world = World()
    method = tiny(PRIFEDSYNC, 2.0, rate=0.001, cohort=PoissonCohort(1.0), batch=WithoutReplacement(BATCH))
    kept = PersonalModels(method.personal, tmp_path)
    closed = world.run(method, kept)
    shared = closed[-1].state.parameters
    mean = torch.stack([kept.model(client, shared) for client in range(CLIENTS)]).double().mean(dim=0)
    assert (mean - shared).norm() <= 1e-5 * shared.norm()


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_with_the_identity_everybody_starts_from_the_global_model_and_keeps_its_own(p: float, tmp_path: Path) -> None:
    world = World()
    method = tiny(PRIFEDSYNC, 2.0, rate=0.001, cohort=PoissonCohort(p), batch=WithoutReplacement(BATCH))
    method = replace(method, personal=Identity())
    kept = PersonalModels(method.personal, tmp_path)
    expected, own = prifedsync(world, p, 1.0, None)
    same(world, expected, world.run(method, kept))
    same_personal(world, own, kept, expected[-1].model)


@pytest.mark.parametrize(("alpha", "temperature"), [(0.5, 1.0), (0.9, 0.2)])
@pytest.mark.parametrize("p", [1.0, 0.5])
def test_attention_mixes_the_cohorts_models_by_their_distances(
    alpha: float, temperature: float, p: float, tmp_path: Path
) -> None:
    world = World()
    method = tiny(PRIFEDSYNC, 2.0, rate=0.02, cohort=PoissonCohort(p), batch=WithoutReplacement(BATCH), rounds=3)
    method = replace(method, personal=Attention(alpha, temperature))
    kept = PersonalModels(method.personal, tmp_path)
    expected, own = prifedsync(world, p, 1.0, None, rate=0.02, attention=(alpha, temperature), rounds=3)
    same(world, expected, world.run(method, kept))
    same_personal(world, own, kept, expected[-1].model)
