"""Sending only part of an update."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Streams
from fedveil.parts.compression import Compression, Prune, Share, keep_largest, upload_bytes

STREAMS = Streams.from_seed(3)


def updates(count: int, size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


def sent(part: Compression, values: torch.Tensor, round: int = 0) -> torch.Tensor:
    return part.apply(values, [Address(round, client) for client in range(len(values))], STREAMS)


@given(size=st.integers(1, 300), share=st.floats(0.01, 0.99), seed=st.integers(0, 5))
def test_exactly_the_stated_number_of_entries_is_sent_unchanged(size: int, share: float, seed: int) -> None:
    values = updates(3, size, seed)
    for part in (Prune(share), Share(share), Share(share, "random")):
        found = sent(part, values)
        nonzero = found != 0
        assert nonzero.sum(dim=-1).tolist() == [part.kept(size)] * 3
        assert torch.equal(found[nonzero], values[nonzero])


@given(size=st.integers(2, 200), share=st.floats(0.05, 0.95))
def test_no_dropped_entry_is_larger_than_a_kept_one(size: int, share: float) -> None:
    values = updates(4, size)
    for part in (Prune(share), Share(share)):
        for before, after in zip(values.abs(), sent(part, values).abs(), strict=True):
            kept = after > 0
            if not kept.all():
                assert before[kept].min() >= before[~kept].max()


@pytest.mark.parametrize(
    ("part", "size", "kept"),
    [
        (Prune(0.0), 10, 10),
        (Prune(0.3), 10, 7),
        (Prune(0.35), 10, 7),
        (Prune(0.999), 10, 1),
        (Share(0.1), 10, 1),
        (Share(0.1), 11, 2),
        (Share(1.0), 10, 10),
        (Share(1e-9), 10, 1),
    ],
)
def test_how_many_are_kept(part: Compression, size: int, kept: int) -> None:
    assert part.kept(size) == kept


def test_sending_everything_changes_nothing() -> None:
    values = updates(2, 17)
    for part in (Prune(0.0), Share(1.0), Share(1.0, "random")):
        assert torch.equal(sent(part, values), values)


def test_a_random_choice_does_not_look_at_the_values() -> None:
    part, first, second = Share(0.3, "random"), updates(5, 40, 1), updates(5, 40, 2) * 1000
    assert torch.equal(sent(part, first) != 0, sent(part, second) != 0)


def test_a_random_choice_differs_between_clients_and_rounds_and_repeats_with_the_seed() -> None:
    part, values = Share(0.3, "random"), torch.ones(2, 40)
    first, again, later = sent(part, values), sent(part, values), sent(part, values, round=1)
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, later)


def test_every_entry_is_chosen_equally_often() -> None:
    chosen = sent(Share(0.25, "random"), torch.ones(2000, 20)).sum(dim=0)
    assert (chosen - 500).abs().max() < 5 * math.sqrt(2000 * 0.25 * 0.75)


def test_ties_do_not_send_more_than_the_stated_number() -> None:
    assert int((keep_largest(torch.ones(1, 30), 7) != 0).sum()) == 7


def test_one_row_does_not_depend_on_the_others() -> None:
    values = updates(6, 50)
    for part in (Prune(0.5), Share(0.2)):
        together = sent(part, values)
        for k in range(6):
            assert torch.equal(together[k : k + 1], part.apply(values[k : k + 1], [Address(0, k)], STREAMS))


@pytest.mark.parametrize(
    ("size", "kept", "expected"),
    [
        (1000, 1000, 4000),  # dense: the numbers, nothing else
        (1000, 500, 2000 + 125),  # a bitmap is shorter than 500 indices
        (1000, 10, 40 + 40),  # ten indices are shorter than a bitmap
        (1001, 900, 3600 + 126),
        (1, 1, 4),
    ],
)
def test_the_bytes_of_an_update(size: int, kept: int, expected: int) -> None:
    assert upload_bytes(size, kept) == expected


@pytest.mark.parametrize("ratio", [-0.1, 1.0, math.nan])
def test_a_ratio_that_leaves_nothing_is_refused(ratio: float) -> None:
    with pytest.raises(FedveilError, match="ratio must be at least 0 and below 1"):
        Prune(ratio)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, math.nan])
def test_a_fraction_that_is_no_share_is_refused(fraction: float) -> None:
    with pytest.raises(FedveilError, match="fraction must be above 0 and at most 1"):
        Share(fraction)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(FedveilError, match="choice must be 'largest' or 'random'"):
        Share(0.5, "smallest")
