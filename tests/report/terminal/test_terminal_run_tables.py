"""Tables for the eye, for Markdown and for a spreadsheet say the same."""

from __future__ import annotations

import csv
import io

from study_rows import claim, row

from fedveil.report.terminal.run_tables import (
    comparison_table,
    csv_text,
    explanation,
    markdown_text,
    plain_text,
    sweep_table,
)


def test_a_mean_of_the_runs_that_did_not_fail_says_so() -> None:
    headings, (line,) = comparison_table([row(method="mine", runs=2, failed=1)])
    assert line[headings.index("accuracy")] == "0.9123 ± 0.0100 (2 of 3 seeds)"


def test_every_delta_of_the_rows_is_named() -> None:
    assert explanation([row(delta=1e-5), row(delta=1e-6), row(delta=1e-5)])[1].startswith("ε at δ = 1e-05, 1e-06: ")


def test_a_line_tells_accuracy_epsilon_and_claim() -> None:
    claims = [claim("server", 0.276), claim("peer", 0.276), claim("released", 1.5)]
    headings, (line,) = comparison_table([row(method="fed-cdp", claimed=claims)])
    shown = dict(zip(headings, line, strict=True))
    assert shown["accuracy"] == "0.9123 ± 0.0100"
    assert shown["ε client × released"] == "∞"
    assert shown["claimed ε"] == "0.276 (record × server, record × peer); 1.5 (record × released)"


def test_a_number_says_where_it_is_of_another_relation_or_can_not_be_relied_on() -> None:
    replaced = {"promised": 2.0, "spent": 2.0, "relation": "replace-one"}
    leaks = "whatever it says: the bound is read without noise"
    plain, other, leaky = (
        row(method="plain"),
        row(method="other", epsilon={"record × server": replaced}),
        row(method="leaky", void=True, caveats=[leaks, "shared"]),
    )
    _, lines = comparison_table([plain, leaky])
    assert lines[0][4:6] == ["1.085 of 1.801", "∞"]
    assert lines[1][4:6] == ["1.085 of 1.801 (NOT private)", "∞"]
    assert comparison_table([other])[1][0][4] == "2, replaced"
    assert f"leaky: {leaks}" in explanation([plain, leaky])
    assert leaks in explanation([leaky])
    table = next(csv.DictReader(io.StringIO(csv_text([leaky]))))
    assert table["caveats"] == f"{leaks}; shared"
    assert table["epsilon record × server relation"] == "add-or-remove"


def test_a_point_of_a_grid_is_named_by_its_values() -> None:
    rows = [row(point={"example.sigma": sigma}, caveats=["odd"] * (sigma > 1)) for sigma in (1.0, 2.5)]
    assert "example.sigma=2.5: odd" in explanation(rows)


def test_an_epsilon_is_never_rounded_down() -> None:
    headings, (line,) = comparison_table([row(method="fed-cdp")])
    assert dict(zip(headings, line, strict=True))["ε record × server"] == "1.085 of 1.801"


def test_a_method_that_failed_has_no_numbers() -> None:
    nothing = {"accuracy": None, "deviation": None, "best": None, "rounds": None, "seconds": None, "runs": 0}
    epsilon = {"record × server": {"promised": 2.0, "spent": None, "relation": "add-or-remove"}}
    _, (line,) = comparison_table([row(method="wild", epsilon=epsilon, **nothing)])
    assert line == ["wild", "failed", "–", "–", "– of 2", "–", "–"]


def test_a_sweep_has_a_column_per_key() -> None:
    headings, (line,) = sweep_table(["a.b", "c"], [row(point={"a.b": 0.5, "c": {"kind": "x"}})])
    assert headings[:2] == ["a.b", "c"]
    assert line[:2] == ["0.5", '{"kind": "x"}']


def test_columns_are_aligned_and_numbers_flush_right() -> None:
    assert plain_text(["name", "number"], [["a", "1"], ["longer", "22"]]) == (
        "name    number\na            1\nlonger      22"
    )


def test_markdown_keeps_bars_inside_cells_and_lists_remarks() -> None:
    text = markdown_text(["a"], [["x|y"]], ["not private: seeded"])
    assert text == "| a |\n| --- |\n| x\\|y |\n\n- not private: seeded\n"


def test_a_spreadsheet_has_every_number_in_full() -> None:
    rows = [row(method="a", claimed=[claim("server", 0.276)]), row(method="b, c", accuracy=None)]
    first, second = csv.DictReader(io.StringIO(csv_text(rows)))
    assert float(first["accuracy"]) == 0.91234
    assert float(first["epsilon record × server promised"]) == 1.80049
    assert first["epsilon client × released spent"] == "inf"
    assert float(first["claimed record × server"]) == 0.276
    assert (second["method"], second["accuracy"], second["claimed record × server"]) == ("b, c", "", "")


def test_the_words_below_explain_what_applies() -> None:
    spent, together = explanation([row(deviation=None)])
    assert "spent" in spent
    assert "together cost more" in together
    assert "standard deviation" in explanation([row()])[0]
    assert explanation([row(rejected=3)])[-1].startswith("3 examples and 0 updates were not finite")
