"""A long attack says how far it is, and goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedveil.attacks.inversion import invert
from fedveil.attacks.inversion.lbfgs import Lbfgs
from fedveil.attacks.inversion.minimise import Group, Minima
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.studies import attack_progress
from fedveil.studies.attack import AttackResult, attack
from fedveil.studies.attack_progress import AttackProgress

SMALL = {"data.clients": 6, "data.records": 10, "data.partition": "random", "batch.size": 2, "cohort.size": 6}
VICTIMS = 5


@pytest.fixture(autouse=True)
def _groups_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invert, "EXAMPLES_AT_A_TIME", 4)


def attacked(pictures: Dataset, **told: Any) -> AttackResult:
    arguments = {"view": "server", "attack": "balanced", "victims": VICTIMS, "iterations": 1, "workers": 1, **told}
    return attack("fedavg", SMALL, dataset=pictures, **arguments)


def interrupted_after(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, as soon as so many groups are kept."""
    keep, kept = AttackProgress.keep, []

    def stop(self: AttackProgress, group: Group, minima: Minima) -> None:
        keep(self, group, minima)
        kept.append(group)
        if len(kept) == groups:
            raise KeyboardInterrupt

    monkeypatch.setattr(AttackProgress, "keep", stop)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many attacks the groups had that were really made."""
    minimise, sizes = Lbfgs.minimise, []

    def counted(self: Lbfgs, objective: Any, start: Any, *rest: Any) -> Minima:
        sizes.append(len(start))
        return minimise(self, objective, start, *rest)

    monkeypatch.setattr(Lbfgs, "minimise", counted)
    return sizes


@pytest.mark.parametrize("groups", [1, 2, 4])  # three groups are the first try
def test_an_interrupted_attack_ends_as_if_it_had_never_been_interrupted(
    pictures: Dataset, tmp_path: Path, groups: int, begun: list[int]
) -> None:
    whole = attacked(pictures, out=tmp_path / "whole.png")
    all_groups = len(begun)
    assert all_groups > 4  # some were tried again
    with pytest.MonkeyPatch.context() as patched:
        interrupted_after(groups, patched)
        with pytest.raises(KeyboardInterrupt):
            attacked(pictures, unfinished=tmp_path / "part")
    begun.clear()
    resumed = attacked(pictures, unfinished=tmp_path / "part", out=tmp_path / "resumed.png")
    assert len(begun) == all_groups - groups
    assert resumed.scored == whole.scored
    assert (tmp_path / "resumed.png").read_bytes() == (tmp_path / "whole.png").read_bytes()


def test_nothing_is_left_behind_unless_it_is_asked_for(
    pictures: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attacked(pictures)
    assert not any(tmp_path.iterdir())


def test_it_says_how_many_victims_are_left_and_how_long_they_take(
    pictures: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 100_000, 60))
    monkeypatch.setattr(attack_progress.time, "monotonic", lambda: float(next(clock)))
    heard: list[str] = []
    attacked(pictures, note=heard.append)
    told = [line for line in heard if "victims attacked" in line]
    assert told[:2] == [  # two took a minute; then four had taken three
        "balanced, try 1: 2 of 5 victims attacked; about 90 s left",
        "balanced, try 1: 4 of 5 victims attacked; about 45 s left",
    ]
    assert not any("5 of 5" in line for line in told)


def test_a_kept_group_that_can_not_be_read_is_named(pictures: Dataset, tmp_path: Path) -> None:
    attacked(pictures, unfinished=tmp_path)
    path = tmp_path / "balanced-try-1-2.safetensors"
    path.write_bytes(b"nothing of use")
    with pytest.raises(FedveilError, match=r"balanced-try-1-2\.safetensors: can't be read .* remove it"):
        attacked(pictures, unfinished=tmp_path)
