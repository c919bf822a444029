"""The last head of a chain fixes every entry and their order."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from fedveil.ledger.chain import GENESIS, first_difference, heads_of, next_head, seal_of

ENTRIES = st.lists(st.text(max_size=12), max_size=6)


@given(entries=ENTRIES)
def test_heads_follow_from_the_beginning_one_after_another(entries: list[str]) -> None:
    head, heads = GENESIS, []
    for entry in entries:
        head = next_head(head, entry)
        heads.append(head)
    assert heads_of(entries) == heads
    assert len({GENESIS, *heads}) == len(entries) + 1


@given(mine=ENTRIES, its=ENTRIES)
def test_two_chains_end_with_the_same_head_only_if_all_their_entries_are_the_same(
    mine: list[str], its: list[str]
) -> None:
    assume(mine != its)
    assert [GENESIS, *heads_of(mine)][-1] != [GENESIS, *heads_of(its)][-1]


@given(entries=st.lists(st.text(max_size=12), min_size=1, max_size=6), data=st.data())
def test_a_changed_entry_is_found_where_it_stands(entries: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(entries) - 1))
    changed = [*entries[:at], entries[at] + "!", *entries[at + 1 :]]
    assert first_difference(heads_of(changed), heads_of(entries)) == at + 1
    assert first_difference(heads_of(entries), heads_of(entries)) is None


def test_text_that_moves_from_one_entry_to_the_next_changes_the_head() -> None:
    assert heads_of(["ab", "c"])[-1] != heads_of(["a", "bc"])[-1] != heads_of(["abc"])[-1]


def test_a_seal_depends_on_the_key_the_length_and_the_head() -> None:
    one = seal_of(b"k" * 32, 3, GENESIS)
    others = [seal_of(b"j" * 32, 3, GENESIS), seal_of(b"k" * 32, 4, GENESIS), seal_of(b"k" * 32, 3, "0" * 64)]
    assert one == seal_of(b"k" * 32, 3, GENESIS)
    assert one not in others
