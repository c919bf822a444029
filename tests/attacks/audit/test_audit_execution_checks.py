"""Comparisons with the declaration: rarely wrong about what is as declared, and right about what is not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import BY_CHECKS
from fedveil.attacks.audit.execution_checks import (
    CHECK_KINDS,
    batch_check,
    cohort_check,
    key_check,
    level_of,
    report_check,
    reuse_check,
    sensitivity_check,
    size_check,
)
from fedveil.core.verdicts import Check, CheckKind
from fedveil.studies.audit_checks import KEYS_DRAWN

LEVEL = 1e-3


def noises(count: int, size: int, seed: int = 1) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


def test_all_checks_together_keep_within_their_share_of_the_error() -> None:
    by_chance = set(CheckKind) - {CheckKind.SENSITIVITY, CheckKind.KEYS}
    assert len(by_chance) == CHECK_KINDS
    assert CHECK_KINDS * level_of(0.95) == pytest.approx(0.05 * BY_CHECKS)


SOUND: list[Callable[[int], Check]] = [
    lambda seed: size_check(noises(20, 60, seed), 0.1),
    lambda seed: reuse_check(noises(20, 60, seed), 0.1),
    lambda seed: report_check(noises(1, 30, seed)[0], 0.1),
    lambda seed: batch_check(*np.random.default_rng(seed).binomial(100, 0.1, (2, 40)).tolist(), 0.1),  # type: ignore[call-arg]
    lambda seed: cohort_check([np.random.default_rng((seed, r)).choice(50, 10, False) for r in (0, 1)], 50, 0.1),
]


@pytest.mark.parametrize("check", SOUND, ids=["size", "reuse", "report", "batch", "cohort"])
def test_a_check_at_level_a_tenth_is_wrong_about_sound_noise_at_most_so_often(check: Callable[[int], Check]) -> None:
    wrong = sum(check(seed).contradicts for seed in range(300))
    assert wrong <= 30 + 3 * math.sqrt(27)


def one_coordinate(noise: Tensor) -> Tensor:
    return torch.cat((noise[:, :-1], torch.zeros(len(noise), 1)), dim=1)


def one_client(noise: Tensor) -> Tensor:
    return torch.cat((noise[:-1], torch.zeros(1, noise.shape[1])))


def half_scaled(noise: Tensor) -> Tensor:
    half = noise.shape[1] // 2
    return torch.cat((noise[:, :half] * 2**0.5, torch.zeros_like(noise[:, half:])), dim=1)


@pytest.mark.parametrize(
    "change",
    [lambda n: n * 0.9, lambda n: n * 1.1, half_scaled, one_coordinate, one_client, lambda n: n * math.nan],
    ids=["less", "more", "half of it", "one coordinate", "one client", "not a number"],
)
def test_noise_of_another_size_contradicts(change: Callable[[Tensor], Tensor]) -> None:
    noise = noises(60, 200)
    assert not size_check(noise, LEVEL).contradicts
    assert size_check(change(noise), LEVEL).contradicts


def test_the_measured_size_is_relative_to_the_declared_one() -> None:
    assert size_check(0.5 * noises(60, 200), LEVEL).measured == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("change", [lambda n: n, lambda n: -3 * n], ids=["equal", "the opposite, larger"])
def test_two_noises_that_are_one_contradict_among_many(change: Callable[[Tensor], Tensor]) -> None:
    noise = noises(200, 100)
    assert not reuse_check(noise, LEVEL).contradicts
    noise[77] = change(noise[5])
    check = reuse_check(noise, LEVEL)
    assert check.contradicts
    assert check.measured == pytest.approx(1.0)


def test_noise_that_is_half_shared_contradicts() -> None:
    noise = noises(40, 400)
    noise[7] = (noise[3] + noise[7]) / 2**0.5
    assert reuse_check(noise, LEVEL).contradicts


@pytest.mark.parametrize("noise", [noises(1, 50), torch.zeros(3, 50), torch.full((2, 50), math.nan)])
def test_one_noise_or_none_is_not_used_twice(noise: Tensor) -> None:
    assert not reuse_check(noise, LEVEL).contradicts


@pytest.mark.parametrize("values", [torch.zeros(2), 0.5 * noises(1, 300)[0], torch.full((100,), 0.3)])
def test_reports_without_their_noise_contradict(values: Tensor) -> None:
    assert report_check(values, LEVEL).contradicts


def test_batches_that_do_not_vary_contradict_poisson_ones_and_the_other_way_round() -> None:
    drawn = np.random.default_rng(1).binomial(100, 0.1, 500).tolist()
    assert batch_check([10] * 50, drawn, LEVEL).contradicts
    assert not batch_check([10] * 50, [10], LEVEL).contradicts
    assert batch_check([10] * 49 + [11], [10], LEVEL).contradicts


def test_cohorts_that_come_back_contradict() -> None:
    same = [list(range(10)), list(range(10))]
    assert cohort_check(same, 100, LEVEL).contradicts
    assert not cohort_check(same, 10, LEVEL).contradicts  # there is nobody else
    assert not cohort_check([[], []], 100, LEVEL).contradicts  # a Poisson cohort may be empty


def test_what_moves_further_than_it_may_contradicts() -> None:
    assert not sensitivity_check([(0.9, 1.0), (1.0005, 1.0), (0.0, 0.0)], LEVEL).contradicts
    for broken in ((1.01, 1.0), (1e-9, 0.0), (math.nan, 1.0), (math.inf, 1.0)):
        assert sensitivity_check([(0.9, 1.0), broken], LEVEL).contradicts
    assert sensitivity_check([(0.5, 1.0), (1.9, 2.0)], LEVEL).measured == pytest.approx(0.95)


def test_keys_that_come_back_contradict_and_keys_of_32_bits_do() -> None:
    """So many keys as an audit draws."""
    generator = np.random.default_rng(1)
    short = [int(word).to_bytes(4, "little") for word in generator.integers(2**32, size=KEYS_DRAWN)]
    long = [generator.bytes(32) for _ in range(KEYS_DRAWN)]
    assert key_check(short, LEVEL).contradicts
    assert not key_check(long, LEVEL).contradicts
    assert key_check([long[0], long[1], long[0]], LEVEL).measured == pytest.approx(1 / 3)
