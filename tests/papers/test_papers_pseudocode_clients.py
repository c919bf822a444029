"""FedAvg, Fed-SDP, Geyer et al., LDP-SGD, DSSGD: what the engine computes is what the papers' pseudo-code says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pseudocode import CLIENTS, NETWORKS, SIZES, Round, World, same
from torch import Tensor

from fedveil.config.front_doors import DOORS
from fedveil.core.streams import Address, Purpose
from fedveil.mechanisms.adaptive import Histogram, Quantile
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Linear, Polynomial
from fedveil.method import Method
from fedveil.parts.batches import FullBatch, PartitionBatch
from fedveil.parts.cohorts import Cohort, FixedSize, PoissonCohort
from fedveil.parts.compression import Prune, Share
from fedveil.parts.stopping import Stop
from fedveil.zoo import (
    DSSGD,
    FED_AVG,
    FED_CDP,
    FED_SDP,
    FED_SDP_CLIENT,
    FED_SGD,
    GEYER,
    GEYER_PRIVATE,
    LDP_SGD,
    LDP_SGD_MEDIAN,
    LDP_SGD_POLY,
    LDP_SGD_QUANTILE,
    ZOO,
)

BATCH, STEPS, COHORT, RATE = 4, 3, 4, 0.3
networks = pytest.mark.parametrize("network", list(NETWORKS))


def tiny(method: Method, **changes: Any) -> Method:
    """The preset with small cohorts and batches, and whatever else is told."""
    parts: dict[str, Any] = {
        "cohort": FixedSize(COHORT),
        "batch": PartitionBatch(BATCH),
        "local": replace(method.local, steps=STEPS, rate=Constant(RATE)),
        "stop": Stop(2),
    }
    return replace(method, **{**parts, **changes})


def changed(mechanism: Gaussian | None, **changes: Any) -> Gaussian:
    assert mechanism is not None
    return replace(mechanism, **changes)


def local_training(world: World, weights: Tensor, t: int, i: int, steps: int = STEPS, rate: float = RATE) -> Tensor:
    """ClientUpdate of McMahan, Geyer and Wei alike: w ← w − η∇L(w; b) over the batches; returns Δw."""
    local = weights
    for batch in world.batches(PartitionBatch(BATCH), t, i, steps):
        local = local - rate * world.gradient(local, batch)
    return local - weights


def one_gradient(world: World, weights: Tensor, i: int) -> Tensor:
    """∇ℓ(B; θ) over all of the client's data B."""
    first = sum(SIZES[:i])
    return world.gradient(weights, world.sites.indices[first : first + SIZES[i]].tolist())


def total(parts: list[Tensor], world: World) -> Tensor:
    return sum(parts, torch.zeros(world.size, dtype=torch.float64))


def mixed(world: World) -> None:
    assert 0.1 < sum(world.clipped) / len(world.clipped) < 0.95, sum(world.clipped) / len(world.clipped)


def noises(world: World, t: int, i: int) -> Tensor:
    return world.normal(Purpose.UPLOAD_NOISE, t, i)


# McMahan et al. (2017)


@networks
def test_fedavg_is_local_training_then_the_mean(network: str) -> None:
    world, weights, expected = World(network), World(network).start, []
    for t in range(2):
        cohort = world.cohort(FixedSize(COHORT), t)
        models = [weights + local_training(world, weights, t, i) for i in cohort]
        updates = [model - weights for model in models]
        weights = total(models, world) / COHORT
        expected.append(Round(cohort, updates, weights))
    same(world, expected, world.run(tiny(FED_AVG)), tolerance=1e-4)


@networks
def test_fedavg_divides_by_the_expected_cohort_whoever_comes(network: str) -> None:
    world, weights, expected, sampler = World(network), World(network).start, [], PoissonCohort(0.5)
    for t in range(3):
        cohort = world.cohort(sampler, t)
        updates = [local_training(world, weights, t, i) for i in cohort]
        weights = weights + total(updates, world) / (0.5 * CLIENTS)
        expected.append(Round(cohort, updates, weights))
    assert len({len(done.cohort) for done in expected}) > 1
    same(world, expected, world.run(tiny(FED_AVG, cohort=sampler, stop=Stop(3))), tolerance=1e-4)


@networks
def test_fedsgd_is_one_gradient_of_all_the_clients_data(network: str) -> None:
    world, theta, expected = World(network), World(network).start, []
    for t in range(2):
        cohort = world.cohort(FixedSize(COHORT), t)
        gradients = [one_gradient(world, theta, i) for i in cohort]
        theta = theta - 0.5 * total(gradients, world) / COHORT
        expected.append(Round(cohort, [-0.5 * gradient for gradient in gradients], theta))
    same(world, expected, world.run(tiny(FED_SGD, batch=FullBatch(), local=FED_SGD.local)), tolerance=1e-4)


# Wei et al. (2021), Algorithm 1


def fed_sdp(world: World, sigma: float, bound: float, *, at_server: bool, sampler: Cohort) -> list[Round]:
    """ΔW ← 1/K_t·Σ_k (clip(ΔW_k) + N(0, σ²C²)), once; W ← W + ΔW. K_t noises of the server are one of their sum."""
    found, weights = [], world.start
    cohort_size = sampler.size if isinstance(sampler, FixedSize) else 0.5 * CLIENTS
    for t in range(2):
        cohort = world.cohort(sampler, t)
        updates = [local_training(world, weights, t, k) for k in cohort]
        clipped = [world.clip_layers(update, bound) for update in updates]
        if at_server:
            noise = sigma * bound * math.sqrt(cohort_size) * world.normal(Purpose.SERVER_NOISE, t)
        else:
            clipped = updates = [c + sigma * bound * noises(world, t, k) for c, k in zip(clipped, cohort, strict=True)]
            noise = torch.zeros_like(weights)
        weights = weights + (total(clipped, world) + noise) / cohort_size
        found.append(Round(cohort, updates, weights, bound=bound))
    return found


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
@pytest.mark.parametrize("sampler", [FixedSize(3), FixedSize(4), PoissonCohort(0.5)], ids=["3", "4", "poisson"])
def test_fed_sdp_is_algorithm_1_with_the_clients_noises_drawn_at_once(
    network: str, sigma: float, sampler: Cohort
) -> None:
    world = World(network, scale=12.0)
    method = tiny(FED_SDP, server=changed(FED_SDP.server, sigma=sigma), cohort=sampler)
    expected = fed_sdp(world, sigma, 4.0, at_server=True, sampler=sampler)
    same(world, expected, world.run(method))
    mixed(world)
    if isinstance(sampler, PoissonCohort):
        assert {len(done.cohort) for done in expected} != {3}, "the declared cohort must differ from the realised one"


@networks
@pytest.mark.parametrize("sigma", [6.0, 0.02])
def test_fed_sdp_on_the_client_is_algorithm_1_with_each_client_drawing_its_noise(network: str, sigma: float) -> None:
    world = World(network, scale=12.0)
    method = tiny(FED_SDP_CLIENT, upload=changed(FED_SDP_CLIENT.upload, sigma=sigma))
    same(world, fed_sdp(world, sigma, 4.0, at_server=False, sampler=FixedSize(COHORT)), world.run(method))
    mixed(world)


# Geyer et al. (2017), Algorithm 1


@networks
@pytest.mark.parametrize("sigma", [1.0, 0.02])
@pytest.mark.parametrize("cohort_size", [3, 4, 5])
def test_geyer_is_algorithm_1(network: str, sigma: float, cohort_size: int) -> None:
    world, weights, expected = World(network), World(network).start, []
    for t, rate in enumerate((0.1, 0.03)):
        cohort = world.cohort(FixedSize(cohort_size), t)
        updates = [local_training(world, weights, t, k, steps=2 * (SIZES[k] // BATCH), rate=rate) for k in cohort]
        norms = [float(update.norm()) for update in updates]
        bound = sorted(norms)[(cohort_size - 1) // 2]  # the paper does not say which of two middle ones: the lower
        clipped = [update / max(1.0, norm / bound) for update, norm in zip(updates, norms, strict=True)]
        noise = bound * sigma * world.normal(Purpose.SERVER_NOISE, t)
        weights = weights + (total(clipped, world) + noise) / cohort_size
        expected.append(Round(cohort, updates, weights, bound=bound))
    method = tiny(
        GEYER,
        cohort=FixedSize(cohort_size),
        local=replace(GEYER.local, epochs=2),
        server=changed(GEYER.server, sigma=sigma),
    )
    same(world, expected, world.run(method))


def test_geyers_cohort_and_noise_may_change_from_round_to_round() -> None:
    world, weights, expected = World(), World().start, []
    for t, (m, sigma) in enumerate(((2, 1.0), (4, 1.5), (5, 2.0))):  # m_t and σ_t; 3.5 clients are 4
        cohort = world.cohort(FixedSize(m), t)
        updates = [local_training(world, weights, t, k) for k in cohort]
        bound = sorted(float(update.norm()) for update in updates)[(m - 1) // 2]
        noise = bound * sigma * world.normal(Purpose.SERVER_NOISE, t)
        weights = weights + (total([world.clip(update, bound) for update in updates], world) + noise) / m
        expected.append(Round(cohort, updates, weights, bound=bound))
    method = tiny(
        GEYER,
        cohort=FixedSize(2, growth=Linear(1.0, 2.5)),
        local=replace(GEYER.local, epochs=None, steps=STEPS, rate=Constant(RATE)),
        server=changed(GEYER.server, course=Linear(1.0, 2.0)),
        stop=Stop(3),
    )
    same(world, expected, world.run(method))


def z_delta(z: float, sigma_b: float) -> float:
    """Andrew et al. (2021), Theorem 1."""
    return (z**-2 - (2 * sigma_b) ** -2) ** -0.5


@networks
@pytest.mark.parametrize("sampler", [PoissonCohort(0.5), FixedSize(COHORT)], ids=["poisson", "fixed"])
@pytest.mark.parametrize(("sigma", "sigma_b"), [(1.0, 10.0), (1.0, 0.6), (0.02, 0.6)])
def test_geyer_private_moves_the_bound_by_a_noisy_count_at_the_server(
    network: str, sampler: Cohort, sigma: float, sigma_b: float
) -> None:
    world, weights, expected, bound = World(network, scale=3.0), World(network).start, [], 1.0
    m = 0.5 * CLIENTS if isinstance(sampler, PoissonCohort) else COHORT
    for t in range(4):
        cohort = world.cohort(sampler, t)
        updates = [local_training(world, weights, t, k) for k in cohort]
        clipped = [world.clip(update, bound) for update in updates]
        noise = z_delta(sigma, sigma_b) * bound * world.normal(Purpose.SERVER_NOISE, t)
        weights = weights + (total(clipped, world) + noise) / m
        below = sum((float(update.norm()) <= bound) - 0.5 for update in updates)
        share = (below + sigma_b * float(world.normal(Purpose.REPORT_NOISE, t, size=1))) / m + 0.5
        following = bound * math.exp(-0.2 * (share - 0.5))
        expected.append(Round(cohort, updates, weights, bound=bound, next_bound=following))
        bound = following
    rule = Quantile(start=1.0, target=0.5, sigma=sigma_b)
    method = tiny(
        GEYER_PRIVATE,
        cohort=sampler,
        local=replace(GEYER_PRIVATE.local, epochs=None, steps=STEPS, rate=Constant(RATE)),
        server=changed(GEYER_PRIVATE.server, sigma=sigma, clip=Clip(rule)),
        stop=Stop(4),
    )
    if (sigma, sigma_b) == (1.0, 10.0):
        assert method.server == GEYER_PRIVATE.server
    same(world, expected, world.run(method))
    mixed(world)


# Federated LDP-SGD, Algorithms 1 to 3


def ldp_sgd(world: World, sigma: float, bounds: list[float]) -> list[Round]:
    """g ← ∇ℓ(B; θ); g ← g·min(1, C/‖g‖); g ← g + N(0, (Cσ)²I); θ ← θ − η·1/m·Σ g with η = 1."""
    found, theta = [], world.start
    for t, bound in enumerate(bounds):
        sampled, sent = world.cohort(FixedSize(COHORT), t), []
        for k in sampled:
            gradient = world.clip(one_gradient(world, theta, k), bound)
            sent.append(gradient - bound * sigma * noises(world, t, k))  # the engine's noise is that of the update, −g
        theta = theta - total(sent, world) / COHORT
        found.append(Round(sampled, [-gradient for gradient in sent], theta, bound=bound))
    return found


def ldp(method: Method, **changes: Any) -> Method:
    return tiny(method, batch=FullBatch(), local=method.local, **changes)


@networks
@pytest.mark.parametrize(("sigma", "bound"), [(1.0, 0.05), (0.02, 0.05), (1.0, 1.2), (0.02, 1.2)])
def test_ldp_sgd_is_algorithms_1_and_3(network: str, sigma: float, bound: float) -> None:
    world = World(network, scale=2.0)
    upload = changed(LDP_SGD.upload, sigma=sigma)
    upload = upload if bound == 0.05 else replace(upload, clip=Clip(Constant(bound)))
    same(world, ldp_sgd(world, sigma, [bound, bound]), world.run(ldp(LDP_SGD, upload=upload)))
    if bound != 0.05:
        mixed(world)


@pytest.mark.parametrize("sigma", [1.0, 0.02])
def test_ldp_sgd_poly_lets_the_clip_fall_with_the_power_of_the_rounds_left(sigma: float) -> None:
    world = World(scale=2.0)
    method = ldp(LDP_SGD_POLY, upload=changed(LDP_SGD_POLY.upload, sigma=sigma), stop=Stop(3))
    same(world, ldp_sgd(world, sigma, [0.05 * (1 - t / 3) ** 0.5 for t in range(3)]), world.run(method))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_every_power_of_the_paper(power: float) -> None:
    world = World(scale=2.0)
    upload = changed(LDP_SGD_POLY.upload, clip=Clip(Polynomial(2.0, power)))
    bounds = [2.0 * (1 - t / 4) ** power for t in range(4)]
    same(world, ldp_sgd(world, 1.0, bounds), world.run(ldp(LDP_SGD_POLY, upload=upload, stop=Stop(4))))
    mixed(world)


@networks
@pytest.mark.parametrize(
    ("start", "sigma", "target", "sigma_b"),
    [(0.01, 1.0, 0.5, 5.0), (1.2, 1.0, 0.1, 0.6), (1.2, 1.0, 0.5, 0.6), (1.2, 0.02, 0.5, 0.05)],
)
def test_ldp_sgd_quantile_moves_the_clip_by_noisy_bits_of_the_clients(
    network: str, start: float, sigma: float, target: float, sigma_b: float
) -> None:
    world, theta, expected, bound = World(network, scale=2.0), World(network).start, [], start
    for t in range(3):
        sampled, sent, bits = world.cohort(FixedSize(COHORT), t), [], 0.0
        for k in sampled:
            gradient = one_gradient(world, theta, k)
            noise = z_delta(sigma, sigma_b) * bound * noises(world, t, k)
            sent.append(world.clip(gradient, bound) - noise)
            bit = 1.0 if float(gradient.norm()) <= bound else 0.0
            bits += bit + sigma_b * float(world.normal(Purpose.REPORT_NOISE, t, k, size=1))
        theta = theta - total(sent, world) / COHORT
        following = bound * math.exp(-0.2 * (bits / COHORT - target))
        expected.append(Round(sampled, [-gradient for gradient in sent], theta, bound, following))
        bound = following
    upload = changed(LDP_SGD_QUANTILE.upload, sigma=sigma, clip=Clip(Quantile(start, target, sigma_b, 0.2)))
    if start == 0.01:
        assert upload == LDP_SGD_QUANTILE.upload
    same(world, expected, world.run(ldp(LDP_SGD_QUANTILE, upload=upload, stop=Stop(3))))


def middle(histogram: list[float], start: float, lowest: int) -> float:
    """The bound that a noisy histogram over (0, 2^lowest], …, doubling, and everything above leads to."""
    counts = [max(count, 0.0) for count in histogram]
    number = next(b for b in range(len(counts)) if sum(counts[: b + 1]) >= sum(counts) / 2)
    if number == 0:
        return start / 10
    if number == len(counts) - 1:
        return start * 10
    return 2.0 ** (lowest + number - 0.5)


@networks
@pytest.mark.parametrize(
    ("rule", "sigma"),
    [
        (Histogram(start=0.01, sigma=8.0, every=1000), 1.0),  # the preset's
        (Histogram(start=1.0, sigma=0.2, every=1), 1.0),
        (Histogram(start=1.0, sigma=0.2, every=2, lowest=-4, highest=5), 0.02),
        (Histogram(start=1.0, sigma=0.01, every=1, lowest=4, highest=5), 0.02),  # all in the lowest bin
        (Histogram(start=1.0, sigma=0.01, every=1, lowest=-9, highest=-8), 0.02),  # all in the highest
    ],
    ids=["preset", "every round", "every other", "lowest", "highest"],
)
def test_ldp_sgd_median_sets_the_clip_by_a_noisy_histogram_of_the_clients_norms(
    network: str, rule: Histogram, sigma: float
) -> None:
    world, theta, expected, bound = World(network, scale=2.0), World(network).start, [], rule.start
    edges = [0.0] + [2.0**power for power in range(rule.lowest, rule.highest + 1)] + [math.inf]
    for t in range(4):
        sampled, sent = world.cohort(FixedSize(COHORT), t), []
        histogram = [0.0] * (len(edges) - 1)
        for k in sampled:
            gradient = one_gradient(world, theta, k)
            sent.append(world.clip(gradient, bound) - sigma * bound * noises(world, t, k))
            noise = world.normal(Purpose.REPORT_NOISE, t, k, size=len(histogram)).tolist()
            for b in range(len(histogram)):
                histogram[b] += (edges[b] < float(gradient.norm()) <= edges[b + 1]) + rule.sigma * noise[b]
        theta = theta - total(sent, world) / COHORT
        following = middle(histogram, rule.start, rule.lowest) if t % rule.every == 0 else bound
        expected.append(Round(sampled, [-gradient for gradient in sent], theta, bound, following))
        bound = following
    upload = changed(LDP_SGD_MEDIAN.upload, sigma=sigma, clip=Clip(rule))
    if rule.every == 1000:
        assert upload == LDP_SGD_MEDIAN.upload
    same(world, expected, world.run(ldp(LDP_SGD_MEDIAN, upload=upload, stop=Stop(4))))


# Shokri and Shmatikov (2015), and communication-efficient learning


def kept_largest(update: Tensor, count: int) -> Tensor:
    order = np.argsort(-np.abs(update.numpy()))
    sent = torch.zeros_like(update)
    for position in order[:count]:
        sent[position] = update[position]
    return sent


@networks
@pytest.mark.parametrize(
    ("part", "dropped"),
    [(None, 0.9), (Share(0.3), 0.7), (Prune(0.5), 0.5), (Prune(0.0), 0.0), (Prune(0.9), 0.9)],
    ids=["dssgd", "share 0.3", "prune 0.5", "prune nothing", "prune 0.9"],
)
def test_dssgd_and_pruning_send_the_largest_entries_and_nothing_else(
    network: str, part: Prune | Share | None, dropped: float
) -> None:
    world, weights, expected = World(network), World(network).start, []
    count = math.ceil(round((1 - dropped) * world.size, 9))
    for t in range(2):
        cohort = world.cohort(FixedSize(COHORT), t)
        updates = [kept_largest(local_training(world, weights, t, i), count) for i in cohort]
        weights = weights + total(updates, world) / COHORT
        expected.append(Round(cohort, updates, weights))
    method = tiny(DSSGD) if part is None else tiny(FED_AVG, compress=part)
    same(world, expected, world.run(method), tolerance=1e-4)


def test_dssgd_with_random_entries_sends_those_that_the_stream_names() -> None:
    world, weights, expected = World(), World().start, []
    count = math.ceil(0.25 * world.size)
    for t in range(2):
        cohort, updates = world.cohort(FixedSize(COHORT), t), []
        for i in cohort:
            order = world.streams.generator(Purpose.SELECTION, Address(t, i)).permutation(world.size)
            update, sent = local_training(world, weights, t, i), torch.zeros_like(weights)
            for position in order[:count]:
                sent[position] = update[position]
            updates.append(sent)
        weights = weights + total(updates, world) / COHORT
        expected.append(Round(cohort, updates, weights))
    same(world, expected, world.run(tiny(FED_AVG, compress=Share(0.25, "random"))), tolerance=1e-4)


def test_pruning_comes_after_the_noise() -> None:
    world, weights, expected = World(scale=12.0), World(scale=12.0).start, []
    for t in range(2):
        cohort, updates = world.cohort(FixedSize(COHORT), t), []
        for i in cohort:
            noisy = world.clip_layers(local_training(world, weights, t, i), 4.0) + 24.0 * noises(world, t, i)
            updates.append(kept_largest(noisy, math.ceil(0.6 * world.size)))
        weights = weights + total(updates, world) / COHORT
        expected.append(Round(cohort, updates, weights))
    same(world, expected, world.run(tiny(FED_SDP_CLIENT, compress=Prune(0.4))))


def test_every_preset_is_transcribed() -> None:
    """A preset added to the zoo needs its pseudo-code here."""
    here = [FED_AVG, FED_SGD, FED_SDP, FED_SDP_CLIENT, GEYER, GEYER_PRIVATE, LDP_SGD, LDP_SGD_POLY]
    here += [LDP_SGD_QUANTILE, LDP_SGD_MEDIAN, DSSGD]
    elsewhere = {"fed-cdp", "fed-cdp-decay", "fed-cdp-batch", "fed-cdp-allocated", "fed-cdp-calibrated", "prifedsync"}
    elsewhere |= set(DOORS)  # no paper has them; tests/engine has averaging and weights, tests/config their choices
    assert FED_CDP is ZOO["fed-cdp"].method
    for name, entry in ZOO.items():
        assert name in elsewhere or any(entry.method is method for method in here), name
