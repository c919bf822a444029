"""Planted bugs are caught by the lines of defence that their declarations name.

The defences themselves are real runs, real audits and tests of this project, on patched copies of the sources.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from catalogue import GROUPS, MUTANTS
from defences_page import PAGE, rows_of
from examination import audit_of, by_audit, by_receipts, by_test
from laboratory import Laboratory
from mutant import SOURCE, Defence, Mutant
from scenes import AUDITS, RUNS
from source_lines import RECEIPTS_OFF

ROOT = Path(__file__).parents[2]
PRODUCTION = {Defence.RECEIPTS, Defence.AUDIT}
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    with Laboratory() as laboratory:
        yield laboratory


# The declarations


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(MUTANTS)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_patch_applies_and_leaves_another_valid_program(name: str) -> None:
    texts: dict[str, str] = {}
    for patch in (*BY_NAME[name].patches, *RECEIPTS_OFF):
        text = texts.setdefault(patch.path, (SOURCE / patch.path).read_text(encoding="utf-8"))
        texts[patch.path] = patch.applied(text)
    for path, text in texts.items():
        before = ast.dump(ast.parse((SOURCE / path).read_text(encoding="utf-8")))
        assert ast.dump(ast.parse(text)) != before, path


def test_every_mutant_is_caught_in_production_or_by_a_named_test_with_the_reason() -> None:
    for mutant in MUTANTS:
        assert mutant.caught_by, mutant.name
        if not mutant.caught_by & PRODUCTION:
            assert mutant.test, mutant.name
            assert mutant.reason, mutant.name
        assert (Defence.TESTS in mutant.caught_by) == (mutant.test is not None), mutant.name
        assert mutant.scene in RUNS
        assert audit_of(mutant) is None or audit_of(mutant) in AUDITS


def test_every_named_test_exists() -> None:
    for mutant in MUTANTS:
        if mutant.test is not None:
            path, _, function = mutant.test.partition("::")
            assert re.search(rf"^def {function.partition('[')[0]}\b", (ROOT / path).read_text(), re.MULTILINE), mutant


def test_the_page_says_what_the_declarations_say() -> None:
    """What they say is measured by `table.py`, and by the slow tests."""
    assert rows_of(PAGE.read_text(encoding="utf-8")) == {mutant.name: frozenset(mutant.caught_by) for mutant in MUTANTS}


# The defences


@pytest.mark.parametrize("scene", RUNS)
def test_the_sources_as_they_are_run_to_the_end(scene: str, laboratory: Laboratory) -> None:
    assert laboratory.asked((), "run", scene) is None


def wrong(mutants: list[Mutant], laboratory: Laboratory) -> dict[str, str]:
    """The mutants of which receipts say something else than is declared."""
    seen = {mutant.name: by_receipts(laboratory, mutant) for mutant in mutants}
    return {name: one.says for name, one in seen.items() if one.caught != (Defence.RECEIPTS in BY_NAME[name].caught_by)}


@pytest.mark.parametrize("group", GROUPS)
def test_receipts_stop_a_third_of_what_they_can_see(group: str, laboratory: Laboratory) -> None:
    assert wrong(GROUPS[group][::3], laboratory) == {}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_receipts_stop_what_they_can_see(group: str, laboratory: Laboratory) -> None:
    assert wrong(GROUPS[group], laboratory) == {}


@pytest.mark.slow
@pytest.mark.parametrize("receipts", ["checked", "unchecked"])
@pytest.mark.parametrize("scene", AUDITS)
def test_audits_of_the_sources_as_they_are_contradict_nothing(
    scene: str, receipts: str, laboratory: Laboratory
) -> None:
    patches = () if receipts == "checked" else RECEIPTS_OFF
    assert laboratory.asked(patches, "audit", scene)["by"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS if Defence.AUDIT in mutant.caught_by])
def test_audits_contradict_what_they_can_see(name: str, laboratory: Laboratory) -> None:
    assert by_audit(laboratory, BY_NAME[name]).caught


@pytest.mark.slow
def test_named_tests_pass_with_the_sources_as_they_are(laboratory: Laboratory) -> None:
    assert not laboratory.failing_test((), *{mutant.test for mutant in MUTANTS if mutant.test is not None})


@pytest.mark.slow
@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS if mutant.test is not None])
def test_named_tests_fail_with_what_they_are_named_for(name: str, laboratory: Laboratory) -> None:
    assert by_test(laboratory, BY_NAME[name]).caught


# The laboratory


def test_a_patch_that_does_not_fit_exactly_once_is_refused() -> None:
    patch = MUTANTS[0].patches[0]
    for text in ("", 2 * patch.old):
        with pytest.raises(ValueError, match="not once"):
            patch.applied(text)
    assert patch.applied(f"a{patch.old}b") == f"a{patch.new}b"
