"""A comparison or a sweep fits a terminal, and every number can be read with what belongs to it."""

from __future__ import annotations

from typing import Any

import pytest
from study_rows import claim, row

from fedveil.report.terminal.study_lines import study_lines

NOTHING = {"promised": "inf", "spent": "inf", "relation": None}
REPLACED = {"promised": 2.0, "spent": 2.0, "relation": "replace-one"}


def bare(**changes: Any) -> dict[str, Any]:
    return row(epsilon={"record × server": NOTHING, "client × released": NOTHING}, **changes)


def test_the_headline_names_the_best_that_promises_something_and_the_best_of_all() -> None:
    rows = [row(method="worse"), row(method="good", accuracy=0.95), bare(method="fedavg", accuracy=0.98)]
    text = " ".join(" ".join(study_lines(rows)).split())
    assert text.startswith("best with a promise: good, accuracy 0.9500 at ε = 1.801 (record × server, were it not")
    assert "; without one: fedavg, accuracy 0.9800" in text


@pytest.mark.parametrize("rows", [[bare(method="fedavg")], [row(method="leaky", void=True)]])
def test_the_headline_says_where_nothing_is_promised_that_holds(rows: list[dict[str, Any]]) -> None:
    assert study_lines(rows)[0].endswith("none of these promises anything that holds")


def test_the_headline_points_to_what_spoils_its_epsilon() -> None:
    (first, second, *_) = study_lines([row(method="copied", caveats=["for all copies together ε = 10"])])
    assert f"{first} {second.strip()}".endswith("were it not seeded; read what is noted of it)")


def test_headings_are_folded_once_where_there_is_room() -> None:
    rows = [row(method="one"), bare(method="two")]
    lines = study_lines(rows)
    names = next(number for number, line in enumerate(lines) if line.startswith("method"))
    assert lines[names - 2] == ""
    assert lines[names - 1].split() == ["ε", "record", "×"]


def test_a_smaller_error_is_better() -> None:
    rows = [row(point={"a.b": value}, figure="rmse", rmse=value, unit="mg") for value in (3.0, 2.0)]
    assert study_lines(rows, ["a.b"])[0].startswith("best with a promise: a.b = 2, RMSE 2 mg at ")


def test_what_is_equal_everywhere_is_said_once() -> None:
    lines = study_lines([row(method="one"), row(method="two", accuracy=0.5)])
    assert not [line for line in lines[2:5] if "∞" in line or "of 1.801" in line]
    assert "  · record × server: ε = 1.085 of 1.801 in every row" in lines
    assert any(line.startswith("  · 10 rounds; mean ± standard deviation") for line in lines)


def test_what_must_be_said_of_a_row_is_a_numbered_note() -> None:
    claims = [claim("server", 0.276), claim("peer", 0.276)]
    leaky = row(method="leaky", void=True, caveats=["read without noise"])
    rows = [row(method="fed-cdp", claimed=claims), leaky, bare(method="failing", failed=1, runs=2)]
    lines = study_lines(rows, remarks=["not private: seeded"])
    table = {line.split()[0]: line for line in lines if "0.9123" in line and ":" not in line}
    assert table["fed-cdp"].endswith("  1")
    assert "1.085, void" in table["leaky"]
    assert table["leaky"].endswith("  2 3")
    assert table["failing"].endswith("  4")
    assert "  1 its paper claims ε = 0.276 (record × server, record × peer)" in lines
    assert "  3 read without noise" in lines
    assert "  4 1 of 3 runs failed and do not count" in lines
    assert lines[-1] == "  · not private: seeded"


def test_another_relation_is_said() -> None:
    replaced = row(method="other", epsilon={"record × server": REPLACED, "client × released": NOTHING})
    assert "  1 record × server: replaced, not added or removed" in study_lines([row(method="one"), replaced])


def test_no_line_is_wider_than_a_terminal_whatever_the_names() -> None:
    long = ["a-spec-file-whose-name-goes-on-and-on-and-on-and-on-and-on-for-ever", "other"]
    rows = [row(method=name, rounds=rounds, void=True) for rounds, name in enumerate(long, 9_998)]
    keys = ["example.clip.bound", "local.optimiser.momentum", "example.sigma"]
    points = [row(point=dict.fromkeys(keys, value), rounds=int(value)) for value in (1.0, 2.0)]
    for lines in (study_lines(rows), study_lines(points, keys)):
        assert max(map(len, lines)) <= 80


def test_a_row_without_numbers_says_failed() -> None:
    nothing = {"accuracy": None, "deviation": None, "best": None, "rounds": None, "seconds": None, "runs": 0}
    epsilon = {"record × server": {"promised": 2.0, "spent": None, "relation": "add-or-remove"}}
    lines = study_lines([row(method="wild", epsilon=epsilon, failed=1, **nothing)])
    assert lines[0] == "no run came to its end"
    assert any("failed" in line and "– of 2" in line for line in lines)
