"""A flipped bit in anything that a run reads back is noticed, or changes nothing of what is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bit_flips import flipped, outcomes

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.engine.personal_models import PersonalModels
from fedveil.ledger.anchor import anchor_path
from fedveil.ledger.store import Ledger
from fedveil.models import scattering
from fedveil.parts.personal import Interpolated
from fedveil.runs.account import account
from fedveil.runs.book import check_records, opened_ledger, read_book
from fedveil.runs.files import RunFiles
from fedveil.runs.prepare import prepare
from fedveil.runs.read import read_run
from fedveil.runs.run import resume, run

SETTINGS = {"seed": "none", "personal": {"kind": "interpolated", "alpha": 0.5}, "data.test": 20}


@pytest.fixture
def files(tmp_path: Path, tiny: dict[str, Any], blobs: Dataset) -> RunFiles:
    run("fed-cdp", {**tiny, **SETTINGS}, out=tmp_path / "run", workers=1, dataset=blobs)
    return RunFiles(tmp_path / "run")


def what_was_spent(files: RunFiles) -> Callable[[], object]:
    """All that ε is computed from. It is not ε itself, which would take far longer, and could stay the same."""
    reading = read_run(files.directory)

    def read() -> object:
        with opened_ledger(files) as ledger:
            return read_book(files, ledger, reading.spec, reading.context)

    return read


def what_it_is_held_to(files: RunFiles) -> Callable[[], object]:
    """The same, with spec and context read anew."""

    def read() -> object:
        reading = read_run(files.directory)
        if reading.book is None or reading.context is None:
            raise FedveilError("; ".join(reading.problems))
        return reading.book, reading.context

    return read


def check(path: Path, read: Callable[[], object], count: int | None) -> None:
    counted = outcomes(path, read, count)
    assert counted.keys() <= {"noticed", "no effect"}, counted
    assert counted["noticed"] > 0, counted


all_of_them = pytest.param(None, marks=pytest.mark.slow)
many_of_them = pytest.param(3000, marks=pytest.mark.slow)


@pytest.mark.parametrize("count", [500, all_of_them])
def test_no_flipped_bit_of_the_ledger_changes_what_was_spent_unnoticed(count: int | None, files: RunFiles) -> None:
    check(files.ledger, what_was_spent(files), count)


@pytest.mark.parametrize("count", [100, all_of_them])
def test_every_flipped_bit_of_the_anchor_is_noticed(count: int | None, files: RunFiles) -> None:
    counted = outcomes(anchor_path(files.ledger), what_was_spent(files), count)
    assert counted.keys() == {"noticed"}


@pytest.mark.parametrize("name", ["spec.toml", "run.json"])
@pytest.mark.parametrize("count", [60, many_of_them])
def test_no_flipped_bit_changes_what_a_ledger_is_held_to_unnoticed(name: str, count: int, files: RunFiles) -> None:
    check(files.directory / name, what_it_is_held_to(files), count)


@pytest.mark.parametrize("count", [100, many_of_them])
def test_no_flipped_bit_changes_how_a_run_ended_unnoticed(count: int | None, files: RunFiles) -> None:
    check(files.result, lambda: resume(files.directory), count)


def test_a_flipped_bit_in_the_key_of_the_records_is_noticed(files: RunFiles, blobs: Dataset) -> None:
    check(files.records_key, lambda: check_records(files, blobs), None)


# What training goes on from


@pytest.mark.parametrize("count", [200, all_of_them])
def test_no_flipped_bit_changes_a_checkpoint_unnoticed(count: int | None, files: RunFiles, blobs: Dataset) -> None:
    layout = prepare(read_run(files.directory).spec, blobs).layout

    def read() -> object:
        state = files.load_checkpoint(layout)
        assert state is not None
        return state.round, state.bound, [t.numpy().tobytes() for t in (state.parameters, *state.optimiser)]

    (path,) = files.checkpoints.iterdir()
    check(path, read, count)


@pytest.mark.parametrize("count", [200, all_of_them])
def test_no_flipped_bit_changes_a_clients_own_model_unnoticed(count: int | None, files: RunFiles) -> None:
    path = sorted(files.personal.iterdir())[0]
    client = int(path.stem.split("-")[0])

    def read() -> object:
        models = PersonalModels(Interpolated(0.5), files.personal)
        models.rewind(4)
        return models.model(client, torch.zeros(1)).numpy().tobytes(), models.own_score

    check(path, read, count)


def test_no_flipped_bit_changes_the_fixed_features_unnoticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "strokes.safetensors"
    copy.write_bytes(scattering.BASIS.read_bytes())
    monkeypatch.setattr(scattering, "BASIS", copy)

    def read() -> object:
        return [tensor.numpy().tobytes() for tensor in scattering._stored.__wrapped__()]

    check(copy, read, 100)
    flips = flipped(copy)
    next(flips)
    with pytest.raises(FedveilError, match=r"strokes\.safetensors: the fixed features are damaged .*; install fedveil"):
        scattering._stored.__wrapped__()


@pytest.mark.parametrize("which", ["the checkpoint", "the client's model"])
def test_a_run_does_not_go_on_from_a_flipped_exponent_and_says_what_to_do(
    which: str, files: RunFiles, blobs: Dataset
) -> None:
    files.result.unlink()
    folder = files.checkpoints if which == "the checkpoint" else files.personal
    path = sorted(folder.iterdir())[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1 << 6  # the highest bit of the last number's exponent
    path.write_bytes(content)
    with pytest.raises(FedveilError) as caught:
        resume(files.directory, workers=1, dataset=blobs)
    words = f"{path}: {which} is damaged (its digest does not fit its content); put it back from a copy, or begin a new"
    assert str(caught.value).startswith(words)
    content[-1] ^= 1 << 6
    path.write_bytes(content)
    assert resume(files.directory, workers=1, dataset=blobs).rounds == 4


# Who else rewrites files


def test_a_result_that_states_less_is_refused_and_made_again(files: RunFiles, blobs: Dataset) -> None:
    before = resume(files.directory)
    text = files.result.read_text()
    stated = f'"epsilon": {before.guarantees[2].epsilon}'
    assert stated in text
    files.result.write_text(text.replace(stated, '"epsilon": 0.1'))
    with pytest.raises(FedveilError, match=r"result\.json: was changed after the run ended .* remove it, and it is"):
        resume(files.directory)
    files.result.unlink()
    assert resume(files.directory, workers=1, dataset=blobs).guarantees == before.guarantees


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def test_an_older_copy_of_ledger_and_anchor_does_not_fit_a_finished_run(
    tmp_path: Path, tiny: dict[str, Any], blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round was attempted twice. The copy knows of one attempt, and of every round: only its head tells."""
    original, copies = Ledger.charge, list[tuple[bytes, bytes]]()
    files = RunFiles(tmp_path / "run")

    def dying(self: Ledger, at: int, cohort: Any, charges: Any) -> None:
        original(self, at, cohort, charges)
        if at == 3 and not copies:
            copies.append((files.ledger.read_bytes(), anchor_path(files.ledger).read_bytes()))
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", dying)
        with pytest.raises(Killed):
            run("fed-cdp", {**tiny, "seed": "none"}, out=files.directory, workers=1, dataset=blobs)
    resume(files.directory, workers=1, dataset=blobs)
    newer = account(files.directory)
    files.ledger.write_bytes(copies[0][0])
    anchor_path(files.ledger).write_bytes(copies[0][1])
    with pytest.raises(FedveilError, match="never had the head"):
        account(files.directory)
    files.result.unlink()  # somebody who puts back everything is noticed by whoever wrote the head down
    assert account(files.directory).ledger != newer.ledger
    assert newer.ledger is not None
    with pytest.raises(FedveilError, match="never had the head"):
        account(files.directory, head=newer.ledger.head)
