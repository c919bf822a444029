"""Guarantees as lines for a terminal."""

from __future__ import annotations

import math
from dataclasses import replace

from page_facts import ARITHMETIC, claim, guarantee, guarantees

from fedveil.core.guarantee import SEEDED, Caveat, CaveatKind, Relation, Secondary
from fedveil.core.risks import Risk
from fedveil.core.types import Unit, View
from fedveil.report.model.guarantee_headline import headline
from fedveil.report.terminal.guarantee_lines import brief_lines, claim_lines, client_lines, table_lines


def test_what_all_cells_rest_on_is_said_once_below() -> None:
    own = Caveat(CaveatKind.CONDITION, "drawn")
    lines = table_lines("spent", [guarantee(Unit.RECORD, View.PEER, 0.82231, ARITHMETIC, own), *guarantees(2.0)])
    assert lines == [
        "spent at δ = 1e-5            ε  right guess  notes",
        "  record × peer         0.8224               1",
        "      8 × Gaussian(z = 4); add-or-remove; PLD",
        "  record × all views         2",
        "      8 × Gaussian(z = 4); add-or-remove; PLD",
        "  client × all views         ∞               2",
        "  1 drawn",
        "  2 no mechanism adds noise",
        f"  · {ARITHMETIC.text}",
    ]
    short = table_lines("spent", guarantees(2.0), verbose=False)
    assert short[1:3] == ["  record × all views         2", "  client × all views         ∞               1"]


def test_no_line_is_wider_than_a_terminal_and_no_number_is_torn() -> None:
    long = Caveat(CaveatKind.CONDITION, "for all that is said here " * 9 + "ε = 1.23 at δ = 1e-5")
    lines = table_lines("spent", [guarantee(Unit.RECORD, View.PEER, 0.82231, ARITHMETIC, long), *guarantees(2.0)])
    assert max(map(len, lines)) <= 80
    assert "ε = 1.23" in "\n".join(lines)


def test_what_spoils_an_epsilon_is_the_first_note_and_marks_its_row() -> None:
    private = Caveat(CaveatKind.PRIVATE_STATISTICS, "made with statistics")
    lines = table_lines("spent", guarantees(1.5, 7.0, ARITHMETIC, private), verbose=False)
    assert lines[1] == "  record × all views       1.5  NOT private  1"
    assert "  1 made with statistics" in lines


def test_a_brief_promise_is_its_headline_and_all_that_spoils_it() -> None:
    copies = Caveat(CaveatKind.ONE_COPY, "of one copy")
    risky = replace(guarantee(Unit.RECORD, View.SERVER, 0.8191, copies), risk=Risk((0.1, 0.2, 0.3), 0.0899, 0.2))
    assert brief_lines("promised", [risky]) == [
        "promised: record-level, against the server: ε = 0.8191 at δ = 1e-5; a right",
        "  guess 54.5 %",
        "  · of one copy",
    ]
    seeded = brief_lines("promised", [replace(risky, caveats=(SEEDED,))])
    assert seeded[0].startswith("promised: NOT private: seeded. record-level, against the server: ε = 0.8191")
    assert "guess" not in " ".join(seeded)


def test_the_headline_says_that_the_server_is_not_kept_from_anything() -> None:
    cells = [guarantee(Unit.CLIENT, View.SERVER, math.inf), guarantee(Unit.CLIENT, View.RELEASED, 8.0)]
    assert headline(cells) == (
        "client-level, against readers of the model: ε = 8 at δ = 1e-5; against the server: nothing"
    )


def test_the_headline_speaks_of_all_copies_of_a_record() -> None:
    cell = replace(guarantee(Unit.RECORD, View.SERVER, 1.5), together=2.5, relation=Relation.REPLACE_ONE)
    assert headline([cell]) == (
        "record-level, against the server: ε = 2.5 at δ = 1e-5 (replace-one) for all copies of a record"
        " (ε = 1.5 for one)"
    )


def test_where_nothing_is_promised_one_line_says_why() -> None:
    assert table_lines("promised", guarantees(math.inf)) == [
        "promised: nothing is guaranteed to anyone (ε = ∞ in every cell): no mechanism",
        "  adds noise",
    ]


def test_other_accountants_stand_below_their_cell() -> None:
    lines = table_lines("spent", guarantees(2.0, secondary=(Secondary("RDP", 2.51, "a note"),)))
    assert lines[3] == "      RDP: ε = 2.51; a note"


def test_clients_and_claims_have_a_line_each() -> None:
    assert client_lines(Unit.RECORD, View.SERVER, [0.0, 1.0, 2.00001, math.inf]) == [
        "clients' own record × server: least ε = 0, median 2.001, most ∞; 1 of 4 have",
        "  spent nothing",
    ]
    assert claim_lines([claim(0.82231)]) == ["claimed: record × server ε = 0.8223 (a paper). They count otherwise."]
