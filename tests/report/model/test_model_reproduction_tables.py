"""Tables of the papers beside ours."""

from __future__ import annotations

from typing import Any

from fedveil.report.model.reproduction_tables import (
    guarantee_table,
    matrix,
    ours_text,
    reproduction_table,
    shortfalls,
)


def cell(row: str, column: str, paper: Any, ours: Any, **more: Any) -> dict[str, Any]:
    plain = {
        "deviation": None, "words": "", "runs": 1, "seeds": 1, "failed": 0, "added": False, "digits": 3,
        "place": "record × server", "delta": 1e-5, "claimed": 0.8, "verified": 5.9, "promised": 5.9,
        "relation": "add-or-remove", "copies": 1, "together": None, "certified": False, "leaks": False,
        "unit": "record", "calibrated": False, "population": None,
    }  # fmt: skip
    return {"row": row, "column": column, "paper": paper, "ours": ours, **plain, **more}


ROWS = [
    cell("a", "K=1", 0.95, 0.6781, deviation=0.0123, runs=3, seeds=3, verified=3.2),
    cell("a", "K=2", 0.96, 0.9581),
    cell(
        "b",
        "K=1",
        None,
        None,
        words="diverged",
        verified=None,
        promised=None,
        claimed=None,
        place=None,
        relation=None,
        runs=0,
    ),
    cell("solved for it", "K=1", None, 0.91, added=True, calibrated=True, verified=0.8, promised=0.8, claimed=None),
]


def test_a_line_has_the_papers_value_ours_with_its_deviation_and_both_epsilons() -> None:
    headings, lines = reproduction_table(ROWS)
    assert headings == ["row", "column", "paper", "ours", "claimed ε", "verified ε", "of"]
    assert lines[0] == ["a", "K=1", "0.95", "0.678 ± 0.012", "0.8", "3.2 of 5.9", "record × server, add-or-remove"]
    assert lines[2] == ["b", "K=1", "–", "diverged", "–", "–", "–"]
    assert len(reproduction_table([ROWS[2]])[0]) == 4


def test_the_matrix_has_the_papers_shape_with_its_values_in_brackets() -> None:
    headings, lines = matrix(ROWS)
    assert headings == ["", "K=1", "K=2"]
    assert lines[0] == ["a", "0.678 ± 0.012 (0.95)", "0.958 (0.96)"]
    assert lines[1] == ["b", "diverged", ""]


def test_columns_with_the_same_guarantee_share_a_line() -> None:
    table = guarantee_table([ROWS[1], {**ROWS[1], "column": "K=3"}, ROWS[3]])
    assert table is not None
    assert table[1][0] == ["a", "all", "0.8", "5.9", "record × server, add-or-remove"]
    every = guarantee_table(ROWS)
    assert every is not None
    assert [line[1] for line in every[1]] == ["K=1", "K=2", "all"]
    assert guarantee_table([ROWS[2]]) is None


def test_all_columns_are_only_said_where_all_have_run() -> None:
    waiting = cell("a", "K=4", 0.9, None, words="not run", runs=0, place=None, relation=None)
    table = guarantee_table([ROWS[1], {**ROWS[1], "column": "K=3"}, waiting])
    assert table is not None
    assert [line[1] for line in table[1]] == ["K=2, K=3"]


def test_a_verified_epsilon_is_never_rounded_down_and_a_claimed_one_is_rounded_as_the_paper_does() -> None:
    row = cell("a", "b", None, 0.82231, digits=4, verified=0.82231, promised=0.82231, claimed=0.82271, certified=True)
    assert ours_text(row) == "0.8224"
    assert matrix([row])[1] == [["a", "0.8224"]]
    assert reproduction_table([row])[1][0][3:6] == ["0.8224", "0.8227", "0.8224"]
    assert ours_text({**row, "ours": "inf"}) == "∞"
    assert ours_text({**row, "certified": False}) == "0.8223"


def test_where_nothing_is_promised_no_relation_is_named() -> None:
    row = cell("a", "b", None, 0.5, verified="inf", promised="inf", relation=None)
    assert reproduction_table([row])[1][0][-2:] == ["∞", "record × server"]


def test_numbers_are_never_hidden_by_too_few_digits_and_missing_seeds_are_told() -> None:
    assert ours_text(cell("a", "b", None, 0.00000123, digits=4)) == "1.23e-06"
    assert ours_text(cell("a", "b", None, 209500, digits=0)) == "209,500"
    assert ours_text(cell("a", "b", None, "inf")) == "∞"
    assert ours_text(cell("a", "b", None, 0.5, runs=1, seeds=3)) == "0.500 (1 of 3 seeds)"


def test_a_stated_number_that_is_not_reached_is_told_with_what_calibrated_noise_buys() -> None:
    (sentence,) = shortfalls(ROWS)
    assert sentence == (
        "a: the stated number is not reached in 1 of 2 places, furthest at K=1: 0.678 ± 0.012 instead of 0.95"
        " (verified ε = 3.2 of 5.9); there “solved for it” reaches 0.910, verified ε = 0.8"
    )
    assert shortfalls([cell("a", "K=1", 0.95, 0.94, deviation=0.02)]) == []


def test_an_epsilon_of_something_else_beside_it_says_so() -> None:
    clients = {"unit": "client", "place": "client × released", "relation": "replace-one"}
    (sentence,) = shortfalls([cell("a", "K=1", 0.95, 0.67, **clients), ROWS[3]])
    assert sentence.endswith("verified ε = 0.8 (record × server, add-or-remove: another guarantee)")


def test_calibrated_noise_answers_in_its_row_or_in_its_column_and_population_whatever_the_labels_say() -> None:
    worst = cell("first", "accuracy", 0.95, 0.5, population="K=100")
    same = cell("second", "accuracy", None, 0.8, added=True, calibrated=True, population="K=100")
    other = cell("third", "accuracy", None, 0.9, added=True, calibrated=True, population="K=1000")
    any_population = cell("fourth", "accuracy", None, 0.7, added=True, calibrated=True)
    plain = cell("calibrated, K=100", "accuracy", None, 0.99, added=True)
    beside = cell("first", "solved", None, 0.6, added=True, calibrated=True)
    (sentence,) = shortfalls([worst, same, other, any_population, plain, beside])
    assert [
        name for name in ("second", "third", "fourth", "calibrated, K=100", "solved") if f"“{name}”" in sentence
    ] == [
        "second",
        "fourth",
        "solved",
    ]


def test_an_epsilon_that_leaks_is_called_not_private() -> None:
    assert reproduction_table([cell("a", "b", None, 0.5, leaks=True)])[1][0][5] == "5.9 (not private: bare median)"
