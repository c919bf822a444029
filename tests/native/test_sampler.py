"""All ways of drawing give the same integers, these are rounded Gaussians, and rare decisions are made exactly."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.native import exact, sampler, twin
from fedveil.native.exact import CELLS_PER_STD, KNOT, acceptance, decide
from fedveil.native.sampler import MOST_DRAWS, SIDE_BY_SIDE, WAYS, Sampler, Way
from fedveil.native.tables import COEFFICIENTS, DEGREE, ENDS, FIRST, FIXED_BITS, KNOT_BITS

PURPOSE = Purpose.EXAMPLE_NOISE
VECTOR_WAYS = [way for way in WAYS if way in SIDE_BY_SIDE]
GOLDEN = [15347533, 103714, 32123702, -17658688]


def draw(way: Way, addresses: list[Address], size: int, seed: int = 1) -> np.ndarray:
    out = np.empty((len(addresses), size), np.int32)
    Sampler(Streams.from_seed(seed), way).release(PURPOSE, addresses, out, 0.0)
    return out


def test_seeded_integers_never_change_between_versions_and_machines() -> None:
    """A change here means that no seeded run can be repeated any more."""
    for way in WAYS:
        assert draw(way, [Address(1, 2, 3)], 4, seed=0)[0].tolist() == GOLDEN


@pytest.mark.skipif(len(WAYS) == 1, reason="there was no compiler: only the twin is here")
@settings(max_examples=40, deadline=None)
@given(
    size=st.one_of(st.integers(1, 200), st.integers(8000, 40_000)),
    addresses=st.lists(st.builds(Address, *[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=4, unique=True),
    seed=st.integers(0, 1000),
)
def test_every_way_gives_the_same_integers(size: int, addresses: list[Address], seed: int) -> None:
    expected = draw(Way.TWIN, addresses, size, seed)
    for way in WAYS:
        assert np.array_equal(draw(way, addresses, size, seed), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("grid", [2.0**-24, 1e-9, 3.7e-3])
def test_every_way_releases_the_same_values(dtype: type, grid: float) -> None:
    values = np.random.default_rng(2).standard_normal((3, 20_001)).astype(dtype) * 5
    values[1, :4] = np.nan, np.inf, -np.inf, 1e30
    addresses = [Address(0, client) for client in range(3)]
    released = []
    for way in WAYS:
        copy = values.copy()
        Sampler(Streams.from_seed(4), way).release(PURPOSE, addresses, copy, grid)
        released.append(copy)
    assert all(np.array_equal(one, released[0]) for one in released)
    assert np.isfinite(released[0]).all()


def test_a_shorter_row_is_the_beginning_of_a_longer_one() -> None:
    for way in WAYS:
        long = draw(way, [Address(5)], 50_000)[0]
        for size in (1, 15, 16, 17, 8191, 8192, 8193, 16_384, 16_385, 33_000):
            assert np.array_equal(draw(way, [Address(5)], size)[0], long[:size])


def test_a_stream_that_would_reach_its_own_proposals_is_refused() -> None:
    values = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, MOST_DRAWS), (0, 0))
    with pytest.raises(FedveilError, match="values from one stream"):
        Sampler(Streams.from_seed(0)).release(PURPOSE, [Address()], values, 1.0)


def test_nothing_is_drawn_for_nobody() -> None:
    for way in WAYS:
        assert draw(way, [], 5).shape == (0, 5)
        assert draw(way, [Address()], 0).shape == (1, 0)


# The distribution. 64 million draws by the fastest way with `slow`, 4 million otherwise.


def check_distribution(count: int, way: Way) -> None:
    edges = np.rint(stats.norm.ppf(np.arange(1, 1024) / 1024) * CELLS_PER_STD).astype(np.int64)
    expected = np.diff(np.concatenate([[0], stats.norm.cdf((edges - 0.5) / CELLS_PER_STD), [1]]))
    between = np.arange(-110, 110)[:, None] * KNOT + np.arange(257)[None, :] * (KNOT // 256)
    position = np.diff(stats.norm.cdf((between - 0.5) / CELLS_PER_STD), axis=1).sum(axis=0)
    seen, low, places, moments = np.zeros(1024), np.zeros(256), np.zeros(256), np.zeros(4)
    block = 1 << 20
    for number in range(count // block):
        values = draw(way, [Address(number)], block, seed=77)[0]
        seen += np.bincount(np.searchsorted(edges, values, "right"), minlength=1024)
        low += np.bincount(values & 255, minlength=256)
        places += np.bincount((values & (KNOT - 1)) >> (KNOT_BITS - 8), minlength=256)
        scaled = values / CELLS_PER_STD
        moments += [np.sum(scaled**power) for power in (1, 2, 3, 4)]
    for counts, share in ((seen, expected), (low, np.full(256, 1 / 256)), (places, position)):
        assert stats.chisquare(counts, share * counts.sum()).pvalue > 1e-4
    deviations = [math.sqrt(variance / count) for variance in (1, 2, 15, 96)]
    for moment, mean, deviation in zip(moments / count, (0, 1, 0, 3), deviations, strict=True):
        assert abs(moment - mean) < 4.5 * deviation


def test_draws_are_rounded_gaussians_to_the_last_bits() -> None:
    check_distribution(1 << 22, WAYS[0])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_quarter_of_a_billion_draws_are_rounded_gaussians(way: Way) -> None:
    check_distribution(1 << 28 if way in SIDE_BY_SIDE else 1 << 26, way)


def test_accepted_proposals_are_distributed_as_what_hats_leave() -> None:
    """The rare path by itself: two million proposals."""
    words = np.empty((2_000_000, 4), np.uint32)
    Streams.from_seed(3).fill(PURPOSE, Address(), words.reshape(-1), 0)
    values, accepted = twin.proposals(words, lambda number, block: decide(block, lambda more: b""))
    parts = 4  # of a bin
    counts = np.bincount((values[accepted].astype(np.int64) - FIRST * KNOT) // (KNOT // parts), minlength=192 * parts)
    starts = (np.arange(FIRST * parts, -FIRST * parts) * (KNOT // parts)).tolist()
    edges = np.array([*starts, -FIRST * KNOT])
    gaussian = np.diff(stats.norm.cdf((edges - 0.5) / CELLS_PER_STD))
    step = KNOT // parts
    covered = np.array(
        [float(exact.hats(start) + exact.hats(start + step - 1)) / 2 * step for start in starts], dtype=float
    )
    left = gaussian - covered
    expected = left / left.sum() * counts.sum()
    large = expected > 20
    pooled = np.append(counts[large], counts[~large].sum())
    assert stats.chisquare(pooled, np.append(expected[large], expected[~large].sum())).pvalue > 1e-4


# Decisions that forty bits can't make.


def proposal(bin_: int, place: int, uniform: int) -> bytes:
    return struct.pack("<IIQ", ENDS[bin_], place, uniform)


@pytest.mark.parametrize("bin_", [40, 80, 95, 96, 120, 151])
def test_a_tie_is_decided_by_further_bits(bin_: int) -> None:
    """The first 64 bits are those of the probability itself; the next ones decide."""
    n = (FIRST + bin_) * KNOT + 777
    low, high = acceptance(bin_, n, 64 + 512)
    first, rest = divmod(low, 1 << 512)
    asked: list[int] = []

    def more(value: int) -> Callable[[int], bytes]:
        return lambda number: asked.append(number) or value.to_bytes(64, "little")  # type: ignore[func-returns-value]

    assert decide(proposal(bin_, 777, first), more(0)) == n
    assert decide(proposal(bin_, 777, first), more((1 << 512) - 1)) is None
    assert decide(proposal(bin_, 777, first), more(rest - 2)) == n
    assert decide(proposal(bin_, 777, first), more(min(high % (1 << 512) + 1, (1 << 512) - 1))) is None
    assert asked == [0, 0, 0, 0]
    assert decide(proposal(bin_, 777, first + 1), more(0)) is None
    assert decide(proposal(bin_, 777, first - 1), more((1 << 512) - 1)) == n
    assert asked == [0, 0, 0, 0]  # these needed no more bits


def test_a_tie_of_576_bits_asks_once_more() -> None:
    n, bin_ = (FIRST + 100) * KNOT + 9, 100
    low, _ = acceptance(bin_, n, 64 + 1024)
    first, rest = divmod(low, 1 << 1024)
    pieces = [(rest >> 512).to_bytes(64, "little"), bytes(64)]
    assert decide(proposal(bin_, 9, first), lambda number: pieces[number]) == n


def test_what_is_beyond_the_bins_is_decided_exactly() -> None:
    n = 13 * CELLS_PER_STD
    block = struct.pack("<IiQ", ENDS[-1], n, 0)
    low, _ = acceptance(None, n, 64 + 512)
    assert low > 0
    assert decide(block, lambda number: bytes(64)) == n
    assert decide(block, lambda number: b"\xff" * 64) is None
    assert decide(struct.pack("<IiQ", ENDS[-1], 5, 0), lambda number: bytes(64)) is None  # near: others propose it
    if ENDS[-1] + 1 < 2**32:
        assert decide(struct.pack("<IiQ", ENDS[-1] + 1, n, 0), lambda number: bytes(64)) is None


@pytest.mark.parametrize("room", [2**30, 2**34])
def test_every_way_asks_for_the_same_decisions(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a far wider room than needed, decisions are made exactly, and come out as they do without."""
    size, address = 60_000, Address(9, 9, 9)
    expected = draw(Way.TWIN, [address], size)
    monkeypatch.setattr(twin, "ROOM", room)
    asked: list[int] = []
    original = exact.decide
    monkeypatch.setattr(exact, "decide", lambda *a: asked.append(1) or original(*a))  # type: ignore[func-returns-value]
    assert np.array_equal(draw(Way.TWIN, [address], size), expected)
    assert asked


@contextmanager
def a_tie(address: Address) -> Iterator[bytes]:
    """Polynomials that tie with the first proposal of a stream; its block."""
    words = np.empty(4, np.uint32)
    Streams.from_seed(1).fill(PURPOSE, address, words, 2**31)
    terms = np.zeros((len(ENDS) - 1, DEGREE + 1), np.int64)
    terms[:, 0] = int(words[2:].copy().view(np.uint64)[0] >> np.uint64(64 - FIXED_BITS))
    alias, ends = np.array(sampler.ALIAS, np.uint32), np.array(ENDS, np.uint32)
    try:
        sampler.kernels.configure(alias, ends, terms)
        yield words.tobytes()
    finally:
        sampler.kernels.configure(alias, ends, np.array(COEFFICIENTS, np.int64))


@pytest.mark.parametrize("way", VECTOR_WAYS)
@pytest.mark.parametrize("answer", [12345, -(2**31), 2**31 - 1, None])
def test_the_kernel_asks_python_and_takes_its_answer(
    answer: int | None, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(exact, "decide", lambda block, more: asked.append(block) or answer)  # type: ignore[func-returns-value]
    words, out = np.empty(40_000, np.uint32), np.empty(20_000, np.int32)
    Streams.from_seed(1).fill(PURPOSE, Address(7), words)
    first = twin.sample(words, out)[0]
    with a_tie(Address(7)) as block:
        drawn = draw(way, [Address(7)], 20_000)[0]
    assert asked[0] == block
    assert (drawn[first] == answer) == (answer is not None)


@pytest.mark.parametrize("way", VECTOR_WAYS)
def test_an_error_in_python_comes_out_of_the_kernel(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(block: bytes, more: object) -> int | None:
        raise RuntimeError("no answer")

    monkeypatch.setattr(exact, "decide", broken)
    with a_tie(Address(7)), pytest.raises(RuntimeError, match="no answer"):
        draw(way, [Address(7)], 20_000)


@pytest.mark.skipif(not sampler.COMPILED, reason="there was no compiler")
@pytest.mark.parametrize(
    "call",
    [
        lambda k: k.configure(np.zeros(3, np.uint32), np.zeros(3, np.uint32), np.zeros(3, np.int64)),
        lambda k: k.sample(np.zeros(8, np.uint32), np.zeros(16, np.int32), np.zeros(17, np.uint32)),
        lambda k: k.add(np.zeros(5, np.float32), np.zeros(4, np.int32), 1.0),
        lambda k: k.add(np.zeros(4, np.float32), np.zeros(4, np.int32), 0.0),
        lambda k: k.release(32, bytes(32), np.zeros((1, 3), np.uint32), np.zeros((1, 4), np.float32), 1.0, None),
        lambda k: k.release(8, b"short", np.zeros((1, 3), np.uint32), np.zeros((1, 4), np.float32), 1.0, None),
        lambda k: k.release(8, bytes(32), np.zeros((3, 3), np.uint32), np.zeros((2, 4), np.float32), 1.0, None),
    ],
)
def test_buffers_that_do_not_fit_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"fit|another sampler"):
        call(sampler.kernels)  # type: ignore[operator]


def test_without_the_kernels_the_twin_does_everything() -> None:
    code = (
        "import sys; sys.modules['fedveil.native.kernels'] = None\n"
        "import numpy as np\n"
        "from fedveil.core.streams import Address, Purpose, Streams\n"
        "from fedveil.native.sampler import WAYS, Sampler\n"
        "out = np.empty((1, 4), np.int32)\n"
        "Sampler(Streams.from_seed(0)).release(Purpose.EXAMPLE_NOISE, [Address(1, 2, 3)], out, 0.0)\n"
        "print(list(WAYS) == ['twin'], out[0].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"True {GOLDEN}"
