"""What the papers claim, by their own formulas, kept apart from what holds and never printed without the difference."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import ndtr

from fedveil.accounting.context import Context
from fedveil.accounting.gaussian_privacy import gaussian_epsilon
from fedveil.accounting.moments import sampled_gaussian_divergences
from fedveil.core.checks import check_delta, count, positive
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Claim
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.batches import AllocatedBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import FixedSize, PoissonCohort

WEI_TABLE_6, ZHENG_THEOREM_2 = "Wei et al. 2021, Table VI", "Zheng et al. 2021, Theorem 2"
GEYER_SECTION_3 = "Geyer et al. 2017, section 3"

MOMENT_ORDERS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *range(5, 64), 128, 256, 512)
"""The orders of the moments accountant that the papers ran."""


def moments_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """ε = min over α of steps·D_α + log(1/δ)/(α − 1) for a Poisson-subsampled Gaussian: the accountant of the time."""
    check_delta(delta)
    orders = np.array(MOMENT_ORDERS, dtype=np.float64)
    return float(np.min(steps * _moments(noise_multiplier, rate, steps) + math.log(1 / delta) / (orders - 1)))


def moments_delta(noise_multiplier: float, rate: float, steps: int, epsilon: float) -> float:
    """δ = min over α of exp((α − 1)·(steps·D_α − ε)): how Geyer et al. watch δ at a fixed ε."""
    orders = np.array(MOMENT_ORDERS, dtype=np.float64)
    exponents = (orders - 1) * (steps * _moments(noise_multiplier, rate, steps) - epsilon)
    return math.exp(min(0.0, float(np.min(exponents))))


def _moments(noise_multiplier: float, rate: float, steps: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    positive("noise multiplier", noise_multiplier)
    count("steps", steps)
    if not 0 < rate <= 1:
        raise FedveilError(f"sampling rate: must be above 0 and at most 1, not {rate}")
    return _divergences(noise_multiplier, rate)


@cache
def _divergences(noise_multiplier: float, rate: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of one step, at every order: what a search over the number of steps asks for again and again."""
    return sampled_gaussian_divergences(noise_multiplier, rate, MOMENT_ORDERS)


def fed_cdp_epsilon(sigma: float, rate: float, local_steps: int, rounds: int, delta: float) -> float:
    """Fed-CDP, Table VI: z = σ, q = B/N_i, L·T steps."""
    return moments_epsilon(sigma, rate, local_steps * rounds, delta)


def fed_sdp_epsilon(sigma: float, cohort_rate: float, rounds: int, delta: float) -> float:
    """Fed-SDP, Table VI: z = σ, q = K_t/K, T steps."""
    return moments_epsilon(sigma, cohort_rate, rounds, delta)


def geyer_delta(sigma: float, cohort: int, clients: int, rounds: int, epsilon: float = 8.0) -> float:
    """Geyer et al.: δ at fixed ε after `rounds` rounds, the fixed-size cohort taken for a Poisson sample."""
    return moments_delta(sigma, cohort / clients, rounds, epsilon)


def histogram_noise(epsilon: float = 0.8, delta: float = 1e-8) -> float:
    """Adaptive median clipping: the least z for which one Gaussian histogram is (ε, δ)-private by Rényi divergences.

    min over α of α/(2z²) + log(1/δ)/(α − 1) is 1/(2z²) + sqrt(2·log(1/δ))/z.
    """
    positive("epsilon", epsilon)
    check_delta(delta)
    linear = math.sqrt(2 * math.log(1 / delta))
    return 1 / (math.sqrt(linear**2 + 2 * epsilon) - linear)


def prifedsync_mean(records: int, batch: int, local_steps: int, rounds: int, sigma: float) -> float:
    """PriFedSync, Theorem 2: μ = √2·c·sqrt(e^(σ^−2)Φ(1.5/σ) + 3Φ(−0.5/σ) − 2) with c = (B/n)·sqrt(K·R).

    The noise on a batch's sum is N(0, 4C²σ²).
    """
    positive("sigma", sigma)
    scale = batch / records * math.sqrt(local_steps * rounds)
    inverse = 1 / sigma
    inside = math.exp(inverse**2) * ndtr(1.5 * inverse) + 3 * ndtr(-0.5 * inverse) - 2 if inverse < 26 else math.inf
    return float(math.sqrt(2) * scale * math.sqrt(max(inside, 0.0)))  # below 0 by rounding, with enormous noise


def claims(context: Context, rounds: int | None = None) -> tuple[Claim, ...]:
    """What the paper behind this kind of method would claim for this training; nothing where no paper speaks of it."""
    made = _claims(context, rounds)
    if context.refusal is None:
        return made
    return tuple(replace(one, difference=f"{one.difference} Nothing is verified: {context.refusal}.") for one in made)


def _claims(context: Context, rounds: int | None) -> tuple[Claim, ...]:
    method, population, layers, delta = context.method, context.population, context.layers, context.delta
    check_delta(delta)
    example, total = method.example, method.rounds if rounds is None else rounds
    if total == 0:
        return ()
    if example is None:
        return _client_level(method, population, layers, total, delta)
    if example.sigma == 0:
        return ()
    records = min(population.records)
    steps, batch = method.local_steps(records), method.batch.declared(records)
    if example.noise == "row":
        epsilon = fed_cdp_epsilon(example.sigma, batch / records, steps, total, delta)
        step = f"Poisson({batch / records:.4g}) Gaussian(z = σ = {example.sigma:g})"
        formula = f"moments accountant, {steps * total:,} × {step}"
        return (
            Claim(WEI_TABLE_6, Unit.RECORD, View.SERVER, epsilon, delta, formula, _fed_cdp_difference(method, layers)),
            Claim(
                WEI_TABLE_6,
                Unit.CLIENT,
                View.RELEASED,
                epsilon,
                delta,
                formula + ", carried over by the Billboard lemma",
                "The lemma keeps the unit of the guarantee it starts from, which is one record, so nothing follows for"
                " a whole client but group privacy over all its records.",
            ),
        )
    if isinstance(method.batch, WithoutReplacement) and example.clip.by == "flat":
        return _prifedsync(method, population, records, steps, total, delta)
    return ()


def _client_level(method: Method, population: Population, layers: int, rounds: int, delta: float) -> tuple[Claim, ...]:
    """Fed-SDP (noise on every update, at the server or on the client) and Geyer et al. (noise once, on the sum)."""
    mechanism = method.server or method.upload
    own_noise = method.server is None or method.server.noise == "row"
    if mechanism is None or mechanism.sigma == 0 or (method.upload is not None and mechanism.clip.by == "flat"):
        return ()  # nobody states an ε for federated LDP-SGD
    rate = min(method.cohort.at(0, method.rounds).divisor(population.clients) / population.clients, 1.0)
    epsilon = moments_epsilon(mechanism.sigma, rate, rounds, delta)
    formula = f"moments accountant, {rounds:,} × Poisson({rate:.4g}) Gaussian(z = σ = {mechanism.sigma:g})"
    source = WEI_TABLE_6 if own_noise else GEYER_SECTION_3
    difference = _client_level_difference(method, mechanism, layers, own_noise)
    return (Claim(source, Unit.CLIENT, View.RELEASED, epsilon, delta, formula, difference),)


def _client_level_difference(method: Method, mechanism: Gaussian, layers: int, own_noise: bool) -> str:
    parts = []
    if own_noise:
        parts.append("the claim takes z = σ, without the noises of a cohort's updates adding up in their sum")
    if mechanism.clip.by == "layer" and layers > 1:
        parts.append(f"it leaves out the sensitivity C·sqrt(M) of clipping M = {layers} layers one by one")
    if isinstance(mechanism.clip.bound, CohortMedian):
        parts.append("it leaves out that the clipping bound is read from the clients' norms without noise")
    if isinstance(method.cohort, FixedSize):
        parts.append("it takes cohorts of fixed size for Poisson samples")
    if not parts or isinstance(method.cohort, PoissonCohort):
        parts.append("Rényi divergences are looser than the privacy loss distribution")
    text = ", and ".join(parts)
    return text[0].upper() + text[1:] + "."


def _fed_cdp_difference(method: Method, layers: int) -> str:
    assert method.example is not None
    parts = ["the claim takes z = σ, without the sqrt(B) that noise on every one of B rows gives"]
    if method.example.clip.by == "layer" and layers > 1:
        parts.append(f"and without the sensitivity C·sqrt(M) of clipping M = {layers} layers one by one")
    if isinstance(method.batch, PartitionBatch):
        parts.append("and it amplifies by sampling although the batches are a partition, which amplifies nothing")
    elif isinstance(method.batch, AllocatedBatch):
        parts.append("and it takes allocated batches for Poisson samples")
    elif isinstance(method.batch, WithoutReplacement):
        parts.append("and it takes batches of fixed size for Poisson samples")
    elif isinstance(method.batch, PoissonBatch):
        parts.append("and Rényi divergences are looser than the privacy loss distribution")
    text = ", ".join(parts)
    return text[0].upper() + text[1:] + "."


def _prifedsync(
    method: Method, population: Population, records: int, steps: int, rounds: int, delta: float
) -> tuple[Claim, ...]:
    assert method.example is not None
    sigma = method.example.sigma / 2  # the paper writes the noise on the sum as 2·C·σ
    weak = prifedsync_mean(records, method.batch.declared(records), steps, rounds, sigma)
    strong = weak * math.sqrt(max(population.clients - 1, 1))
    formula = f"μ by the central limit theorem, n = {records}, K = {steps}, R = {rounds}, σ = {sigma:g}"
    limit = "μ is the limit for many steps, an approximation and no bound, while the verified value is certified"
    return (
        Claim(ZHENG_THEOREM_2, Unit.RECORD, View.PEER, _epsilon(weak, delta), delta, formula, limit + ".", weak),
        Claim(
            ZHENG_THEOREM_2,
            Unit.RECORD,
            View.SERVER,
            _epsilon(strong, delta),
            delta,
            f"strong form, sqrt(m − 1) times {formula}",
            limit + ", and all that the colluding m − 1 peers hold is made from what one client sent, which costs once"
            " and not m − 1 times.",
            strong,
        ),
    )


def _epsilon(mean: float, delta: float) -> float:
    return gaussian_epsilon(1 / mean, delta) if 0 < mean < math.inf else math.inf if mean else 0.0
