"""Each sampler draws what its declaration says it draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedveil.core.errors import FedveilError
from fedveil.core.types import Sampling
from fedveil.mechanisms.arithmetic import LONG_SUM
from fedveil.parts.batches import (
    OVERFLOW_PROBABILITY,
    AllocatedBatch,
    BatchSampler,
    Draw,
    FullBatch,
    PartitionBatch,
    PoissonBatch,
    WithoutReplacement,
    poisson_cap,
)

SIZES = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda two: (min(two), max(two)))
STEPS = st.integers(1, 30)
SEEDS = st.integers(0, 20)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def used(draw: Draw) -> np.ndarray:
    """All positions in filled slots."""
    return draw.positions[np.arange(draw.positions.shape[1]) < draw.counts[:, None]]


@given(sizes=SIZES, steps=STEPS, seed=SEEDS)
def test_a_partition_is_disjoint_within_an_epoch_and_covers_all_whole_batches(
    sizes: tuple[int, int], steps: int, seed: int
) -> None:
    size, records = sizes
    draw = PartitionBatch(size).draw(records, steps, generator(seed))
    assert draw.positions.shape == (steps, size)
    assert (draw.counts == size).all()
    epoch = records // size
    for first in range(0, steps, epoch):
        batches = draw.positions[first : first + epoch]
        assert len(np.unique(batches)) == batches.size
        if len(batches) == epoch:
            assert batches.size == (records // size) * size
    assert 0 <= draw.positions.min() <= draw.positions.max() < records


def test_a_partition_is_shuffled_anew_every_epoch_and_leaves_out_others() -> None:
    draw = PartitionBatch(4).draw(10, 40, generator(1))
    epochs = draw.positions.reshape(20, 8)
    assert len({tuple(epoch) for epoch in epochs}) == 20
    assert {position for epoch in epochs for position in set(range(10)) - set(epoch)} == set(range(10))


@given(sizes=SIZES, steps=STEPS, seed=SEEDS)
def test_without_replacement_every_step_is_a_subset_of_exactly_its_size(
    sizes: tuple[int, int], steps: int, seed: int
) -> None:
    size, records = sizes
    draw = WithoutReplacement(size).draw(records, steps, generator(seed))
    assert draw.positions.shape == (steps, size)
    assert (draw.counts == size).all()
    assert all(len(set(step)) == size for step in draw.positions.tolist())
    assert 0 <= draw.positions.min() <= draw.positions.max() < records


def test_without_replacement_every_record_and_pair_is_equally_likely() -> None:
    steps, records, size = 6000, 8, 3
    chosen = np.zeros((steps, records))
    np.put_along_axis(chosen, WithoutReplacement(size).draw(records, steps, generator(2)).positions, 1, axis=1)
    assert np.abs(chosen.mean(axis=0) - 3 / 8).max() < 5 * math.sqrt(15 / 64 / steps)
    pairs = (chosen.T @ chosen / steps)[~np.eye(records, dtype=bool)]
    expected = size * (size - 1) / (records * (records - 1))
    assert np.abs(pairs - expected).max() < 5 * math.sqrt(expected / steps)
    consecutive = (chosen[:-1] * chosen[1:]).mean()
    assert consecutive == pytest.approx(9 / 64, abs=5 * math.sqrt(0.15 / steps / records))


@given(sizes=SIZES, steps=STEPS, seed=SEEDS, spare=st.none() | st.integers(0, 5))
def test_a_poisson_batch_fills_its_slots_from_the_left_with_distinct_records(
    sizes: tuple[int, int], steps: int, seed: int, spare: int | None
) -> None:
    size, records = sizes
    sampler = PoissonBatch(size, None if spare is None else size + spare)
    draw = sampler.draw(records, steps, generator(seed))
    slots = sampler.slots(records)
    assert draw.positions.shape == (steps, slots)
    assert draw.counts.shape == (steps,)
    assert ((draw.counts >= 0) & (draw.counts <= slots)).all()
    for positions, count in zip(draw.positions, draw.counts, strict=True):
        assert len(set(positions[:count].tolist())) == count
    assert 0 <= draw.positions.min() <= draw.positions.max() < records


def test_poisson_coins_are_fair_and_independent() -> None:
    steps, records, size = 5000, 40, 4
    draw = PoissonBatch(size).draw(records, steps, generator(3))
    joined = np.zeros((steps, records))
    for row, positions, count in zip(joined, draw.positions, draw.counts, strict=True):
        row[positions[:count]] = 1
    assert np.array_equal(joined.sum(axis=1), draw.counts)
    assert np.abs(joined.mean(axis=0) - 0.1).max() < 5 * math.sqrt(0.09 / steps)
    observed = np.bincount(draw.counts, minlength=12)[:12]
    expected = steps * stats.binom.pmf(np.arange(12), records, 0.1)
    assert np.abs(observed - expected).max() < 5 * math.sqrt(expected.max())
    assert draw.counts.min() == 0
    off_diagonal = np.corrcoef(joined.T)[~np.eye(records, dtype=bool)]
    assert np.abs(off_diagonal).max() < 6 / math.sqrt(steps)


def test_an_overflowing_poisson_batch_is_cut_to_a_uniform_choice_of_its_records() -> None:
    steps, records, size = 6000, 20, 8
    draw = PoissonBatch(size, cap=8).draw(records, steps, generator(4))
    assert draw.counts.max() == 8
    expected = np.minimum(np.arange(21), 8) @ stats.binom.pmf(np.arange(21), records, 0.4)
    assert draw.counts.mean() == pytest.approx(expected, abs=5 * 2 / math.sqrt(steps))
    frequency = np.bincount(used(draw), minlength=records) / steps
    assert np.abs(frequency - expected / records).max() < 5 * math.sqrt(0.25 / steps)


def test_a_poisson_batch_as_large_as_the_client_is_always_all_records() -> None:
    draw = PoissonBatch(6).draw(6, 10, generator())
    assert (draw.counts == 6).all()
    assert (draw.positions == np.arange(6)).all()


def test_a_full_batch_is_all_records_in_every_step() -> None:
    draw = FullBatch().draw(7, 3, generator())
    assert (draw.positions == np.arange(7)).all()
    assert draw.counts.tolist() == [7, 7, 7]


def test_records_of_very_long_sums_sit_in_random_slots_other_ones_in_every_round() -> None:
    short, source = FullBatch().draw(LONG_SUM, 1, generator()), generator()
    assert (short.positions[0] == np.arange(LONG_SUM)).all()
    one, other = (FullBatch().draw(LONG_SUM + 1, 2, source).positions for _ in range(2))
    assert (np.sort(one[0]) == np.arange(LONG_SUM + 1)).all()
    assert (one[0] == one[1]).all()
    for first, second in ((one[0], other[0]), (one[0], np.arange(LONG_SUM + 1))):
        assert (first == second).mean() < 0.01


@given(sizes=SIZES, steps=STEPS, seed=SEEDS)
def test_no_record_is_used_more_often_than_declared_and_batches_fit_their_slots(
    sizes: tuple[int, int], steps: int, seed: int
) -> None:
    size, records = sizes
    for sampler in (
        PoissonBatch(size),
        PoissonBatch(size, size + 1),
        WithoutReplacement(size),
        PartitionBatch(size),
        FullBatch(),
    ):
        sampling = sampler.sampling(records, steps)
        draw = sampler.draw(records, steps, generator(seed))
        assert np.bincount(used(draw), minlength=records).max() <= sampling.uses
        assert sampling.records == records
        assert sampling.batch == sampler.declared(records)
        assert sampling.cap == sampler.slots(records) == draw.positions.shape[1]
        assert draw.counts.max() <= sampling.cap
        assert sampling.kind == sampler.kind


@pytest.mark.parametrize(
    ("sampler", "records", "steps", "expected"),
    [
        (PartitionBatch(5), 500, 100, Sampling("partition", 500, 5, 5, 1)),
        (PartitionBatch(5), 500, 101, Sampling("partition", 500, 5, 5, 2)),
        (PartitionBatch(4), 10, 4, Sampling("partition", 10, 4, 4, 2)),
        (WithoutReplacement(16), 600, 38, Sampling("without-replacement", 600, 16, 16, 38)),
        (PoissonBatch(5, cap=9), 500, 100, Sampling("poisson", 500, 5, 9, 100)),
        (PoissonBatch(5, cap=9), 7, 10, Sampling("poisson", 7, 5, 7, 10)),
        (FullBatch(), 30, 2, Sampling("all", 30, 30, 30, 2)),
    ],
)
def test_the_sampling_that_the_accountant_reads(
    sampler: BatchSampler, records: int, steps: int, expected: Sampling
) -> None:
    assert sampler.sampling(records, steps) == expected


@given(sizes=st.tuples(st.integers(1, 200), st.integers(2, 3000)).filter(lambda two: two[0] < two[1]))
def test_the_poisson_cap_is_the_smallest_with_a_negligible_tail(sizes: tuple[int, int]) -> None:
    size, records = sizes
    cap = poisson_cap(records, size)
    assert size <= cap <= records
    assert stats.binom.sf(cap, records, size / records) <= OVERFLOW_PROBABILITY * (1 + 1e-9)
    if cap > size:
        assert stats.binom.sf(cap - 1, records, size / records) > OVERFLOW_PROBABILITY * (1 - 1e-9)


def test_the_poisson_cap_of_a_client_that_is_always_drawn_whole_is_the_client() -> None:
    assert poisson_cap(10, 10) == poisson_cap(10, 12) == 10


@pytest.mark.parametrize("kind", [PoissonBatch, WithoutReplacement, PartitionBatch, AllocatedBatch])
@pytest.mark.parametrize("size", [0, -1])
def test_an_empty_batch_size_is_refused(kind: type[PartitionBatch], size: int) -> None:
    with pytest.raises(FedveilError, match="size must be a positive"):
        kind(size)


def test_a_cap_below_the_expected_size_is_refused_and_one_as_large_is_not() -> None:
    PoissonBatch(5, cap=5)
    with pytest.raises(FedveilError, match="cap must be at least the expected batch size 5, not 4"):
        PoissonBatch(5, cap=4)
    with pytest.raises(FedveilError, match="cap"):
        PoissonBatch(5, cap=0)


@given(sizes=SIZES, steps=STEPS, seed=SEEDS)
def test_allocation_puts_every_record_into_one_step_unless_a_batch_is_cut(
    sizes: tuple[int, int], steps: int, seed: int
) -> None:
    size, records = sizes
    sampler = AllocatedBatch(size)
    draw = sampler.draw(records, steps, generator(seed))
    assert draw.positions.shape == (steps, sampler.slots(records))
    assert len(np.unique(used(draw))) == len(used(draw))
    if draw.counts.max() < sampler.slots(records):
        assert sorted(used(draw)) == list(range(records))
    assert sampler.sampling(records, steps) == Sampling("allocated", records, size, sampler.slots(records), 1)


def test_records_are_allocated_uniformly_and_by_themselves() -> None:
    draws = [AllocatedBatch(4, cap=20).draw(20, 5, generator(seed)) for seed in range(4000)]
    where = np.stack([[int(np.flatnonzero((used_in(draw) == k).any(axis=1))[0]) for k in (0, 7)] for draw in draws])
    together = np.bincount(where[:, 0] * 5 + where[:, 1], minlength=25)
    assert stats.chisquare(together).pvalue > 1e-4
    sizes = np.concatenate([draw.counts for draw in draws])
    assert sizes.var() == pytest.approx(20 * 0.2 * 0.8, rel=0.1), "not all batches alike, as a partition's are"


def used_in(draw: Draw) -> np.ndarray:
    """Positions with −1 in slots that are not filled."""
    return np.where(np.arange(draw.positions.shape[1]) < draw.counts[:, None], draw.positions, -1)


def test_an_allocated_batch_is_cut_to_its_slots_uniformly() -> None:
    kept = np.zeros(30)
    for seed in range(3000):
        draw = AllocatedBatch(3, cap=3).draw(30, 2, generator(seed))
        assert (draw.counts == 3).all()
        kept[used(draw)] += 1
    assert stats.chisquare(kept).pvalue > 1e-4


@pytest.mark.parametrize(
    "sampler", [PoissonBatch(3), WithoutReplacement(3), PartitionBatch(3), AllocatedBatch(3), FullBatch()]
)
def test_the_same_generator_gives_the_same_batches(sampler: BatchSampler) -> None:
    one, two = sampler.draw(20, 9, generator(6)), sampler.draw(20, 9, generator(6))
    assert np.array_equal(one.positions, two.positions)
    assert np.array_equal(one.counts, two.counts)
