"""Random streams: the same address gives the same bits, another address, purpose or key gives others."""

from __future__ import annotations

import copy
import itertools
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.streams import Address, Purpose, SideBySide, Streams

WORDS = st.integers(0, 2**32 - 1)
GOLDEN_BITS = "471b87e8ce71f7edd036536c62e97ed0"
GOLDEN_INTEGER = 4089602527727248345


def bits(streams: Streams, purpose: Purpose, address: Address, length: int = 64) -> bytes:
    out = np.empty(length // 4, np.uint32)
    streams.fill(purpose, address, out)
    return out.tobytes()


def test_the_same_seed_gives_the_same_bits_and_decisions() -> None:
    one, two = Streams.from_seed(7), Streams.from_seed(7)
    where = Address(3, 14, 15)
    assert bits(one, Purpose.EXAMPLE_NOISE, where) == bits(two, Purpose.EXAMPLE_NOISE, where)
    assert (
        one.generator(Purpose.BATCH, where).random(9).tolist() == two.generator(Purpose.BATCH, where).random(9).tolist()
    )
    assert one.integer(Purpose.INITIAL) == two.integer(Purpose.INITIAL)


def test_seeded_bits_never_change_between_versions() -> None:
    """A change here means that no seeded run can be repeated any more."""
    streams = Streams.from_seed(0)
    assert bits(streams, Purpose.EXAMPLE_NOISE, Address(1, 2, 3), 16).hex() == GOLDEN_BITS
    assert streams.integer(Purpose.INITIAL) == GOLDEN_INTEGER


def test_other_seeds_give_other_keys() -> None:
    assert len({Streams.from_seed(seed).key for seed in (*range(-3, 50), 2**70)}) == 54


def test_unseeded_streams_differ_every_time_and_know_it() -> None:
    one, two = Streams.from_system(), Streams.from_system()
    assert one.key != two.key
    assert len(one.key) == 32
    assert not one.seeded
    assert Streams.from_seed(0).seeded


def test_the_key_is_not_in_the_representation() -> None:
    streams = Streams.from_system()
    bits(streams, Purpose.BATCH, Address())
    shown = f"{streams!r} {streams}"
    assert repr(streams.key) not in shown
    assert streams.key.hex() not in shown
    assert "key" not in shown


def test_every_purpose_and_address_has_bits_of_its_own() -> None:
    streams = Streams.from_seed(1)
    addresses = [Address(*place) for place in itertools.product((0, 1, 2**32 - 1), repeat=3)]
    seen = {bits(streams, purpose, address) for purpose in Purpose for address in addresses}
    assert len(seen) == len(Purpose) * len(addresses)
    first = {streams.integer(purpose, address) for purpose in Purpose for address in addresses}
    assert len(first) == len(Purpose) * len(addresses)


@given(one=st.tuples(WORDS, WORDS, WORDS), two=st.tuples(WORDS, WORDS, WORDS))
def test_different_addresses_never_share_a_block(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    streams = Streams.from_seed(2)
    blocks = []
    for place in {one, two}:
        stream = bits(streams, Purpose.ROW_NOISE, Address(*place), 256)
        blocks += [stream[start : start + 16] for start in range(0, 256, 16)]
    assert len(set(blocks)) == len(blocks)


def test_a_shorter_draw_is_the_beginning_of_a_longer_one() -> None:
    streams = Streams.from_seed(3)
    assert bits(streams, Purpose.BATCH, Address(1), 208)[:48] == bits(streams, Purpose.BATCH, Address(1), 48)


def test_the_order_of_draws_does_not_matter() -> None:
    forward, backward = Streams.from_seed(4), Streams.from_seed(4)
    places = [(purpose, Address(r, c)) for purpose in Purpose for r in range(2) for c in range(2)]
    ahead = {place: bits(forward, *place) for place in places}
    assert {place: bits(backward, *place) for place in reversed(places)} == ahead


def test_bits_of_neighbouring_addresses_are_uncorrelated() -> None:
    streams = Streams.from_seed(5)
    rows = [np.frombuffer(bits(streams, Purpose.EXAMPLE_NOISE, Address(0, c), 4096), np.uint8) for c in range(8)]
    unpacked = np.unpackbits(np.stack(rows), axis=1).astype(float) * 2 - 1
    correlations = unpacked @ unpacked.T / unpacked.shape[1]
    off_diagonal = correlations[~np.eye(8, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(unpacked.shape[1])
    assert np.abs(unpacked.mean(axis=1)).max() < 5 / np.sqrt(unpacked.shape[1])


def test_generators_of_different_addresses_are_uncorrelated() -> None:
    streams = Streams.from_seed(6)
    rows = np.stack([streams.generator(Purpose.BATCH, Address(0, c)).standard_normal(4000) for c in range(8)])
    off_diagonal = np.corrcoef(rows)[~np.eye(8, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(4000)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("copied", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy], ids=["pickle", "copy"])
def test_a_pickled_copy_has_the_same_streams(used: bool, copied: object) -> None:
    streams = Streams.from_system()
    if used:
        bits(streams, Purpose.COHORT, Address())
    twin = copied(streams)  # type: ignore[operator]
    assert twin == streams
    assert twin.seeded is False
    assert bits(twin, Purpose.COHORT, Address(1)) == bits(streams, Purpose.COHORT, Address(1))


def test_integers_fit_into_63_bits() -> None:
    streams = Streams.from_seed(8)
    drawn = [streams.integer(Purpose.DROPOUT, Address(step=step)) for step in range(100)]
    assert all(0 <= value < 2**63 for value in drawn)
    assert max(drawn) > 2**61


def test_filling_overwrites_all_words_and_nothing_else() -> None:
    out = np.full(24, 7, np.uint32)
    Streams.from_seed(9).fill(Purpose.BATCH, Address(), out[4:16])
    assert (out[:4] == 7).all()
    assert (out[16:] == 7).all()
    assert not (out[4:16] == 7).any()


def test_a_stream_is_entered_at_any_block() -> None:
    whole, part = np.empty(20, np.uint32), np.empty(8, np.uint32)
    Streams.from_seed(9).fill(Purpose.BATCH, Address(1, 2, 3), whole)
    Streams.from_seed(9).fill(Purpose.BATCH, Address(1, 2, 3), part, block=3)
    assert part.tolist() == whole[12:].tolist()


@given(purpose=st.sampled_from(list(Purpose)), address=st.builds(Address, WORDS, WORDS, WORDS))
def test_hashed_bits_differ_by_key_purpose_address_and_numbers(purpose: Purpose, address: Address) -> None:
    one = Streams.from_seed(9)
    others = [
        one.hashed(purpose, address, 3, 4),
        one.hashed(purpose, address, 3, 5),
        one.hashed(purpose, address, 4, 4),
        Streams.from_seed(8).hashed(purpose, address, 3, 4),
        one.hashed(next(other for other in Purpose if other is not purpose), address, 3, 4),
        one.hashed(purpose, Address(address.round ^ 1, address.client, address.step), 3, 4),
    ]
    assert len({bytes(bits) for bits in others}) == len(others)
    assert {len(bits) for bits in others} == {64}


def test_an_address_that_does_not_fit_the_counter_is_refused() -> None:
    with pytest.raises(Exception, match=r"argument out of range|format requires"):
        bits(Streams.from_seed(0), Purpose.BATCH, Address(2**32))


def test_an_unseeded_key_is_32_bytes_of_the_systems_secure_source(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    def token_bytes(count: int) -> bytes:
        drawn.append(os.urandom(count))
        return drawn[-1]

    monkeypatch.setattr("fedveil.core.streams.secrets.token_bytes", token_bytes)
    first, second = Streams.from_system(), Streams.from_system()
    assert [first.key, second.key] == drawn
    assert [len(key) for key in drawn] == [32, 32]
    assert not first.seeded


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=5), st.integers(0, 2**32 - 1))
def test_addresses_side_by_side_are_those_of_each_client(round: int, clients: list[int], step: int) -> None:
    side = SideBySide(round, clients)
    addresses = [Address(round, client, step) for client in clients]
    assert list(side.at(step)) == addresses
    assert side.at(step)[1:3] == addresses[1:3]
    assert np.array_equal(np.asarray(side.at(step), np.uint32), np.array(addresses, np.uint32).reshape(-1, 3))
    assert list(side) == [Address(round, client) for client in clients]
