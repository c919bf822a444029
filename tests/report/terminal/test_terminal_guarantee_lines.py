"""Guarantees as lines for a terminal."""

from __future__ import annotations

import math

from page_facts import ARITHMETIC, claim, guarantee, guarantees

from fedveil.core.guarantee import Caveat, CaveatKind, Secondary
from fedveil.core.types import Unit, View
from fedveil.report.terminal.guarantee_lines import claim_lines, client_lines, table_lines


def test_what_all_cells_rest_on_is_said_once_below() -> None:
    own = Caveat(CaveatKind.CONDITION, "drawn")
    lines = table_lines("spent", [guarantee(Unit.RECORD, View.PEER, 0.82231, ARITHMETIC, own), *guarantees(2.0)])
    assert lines[0] == "spent (δ = 1e-05)"
    assert lines[1] == "  record × peer       ε = 0.8224   8 × Gaussian(z = 4); add-or-remove; PLD; drawn"
    assert lines[-2] == "  client × released   ε = ∞        no mechanism adds noise"
    assert lines[-1] == f"  · {ARITHMETIC.text}"


def test_where_nothing_is_promised_one_line_says_why() -> None:
    assert table_lines("promised", guarantees(math.inf)) == [
        "promised: nothing is guaranteed to anyone (ε = ∞ in every cell): no mechanism adds noise"
    ]


def test_other_accountants_stand_below_their_cell() -> None:
    lines = table_lines("spent", guarantees(2.0, secondary=(Secondary("RDP", 2.51, "a note"),)))
    assert lines[2] == f"{'':22}ε = 2.51     RDP: a note"


def test_clients_and_claims_have_a_line_each() -> None:
    assert client_lines(Unit.RECORD, View.SERVER, [0.0, 1.0, 2.00001, math.inf]) == [
        "clients' own record × server: least ε = 0, median 2.001, most ∞; 1 of 4 have spent nothing"
    ]
    assert claim_lines([claim(0.82231)]) == ["claimed: record × server ε = 0.8223 (a paper). They count otherwise."]
