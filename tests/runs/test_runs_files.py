"""Files appear whole or not at all, and a run directory that is damaged or foreign is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from fedveil.core.digested_tensors import digested
from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.engine.server_state import ServerState
from fedveil.runs.files import FORMAT, READABLE, RunFiles

NETWORK = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, bias=False))
LAYOUT = Layout.of(NETWORK)


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    made = RunFiles(tmp_path / "run")
    made.create()
    return made


def state(round: int, optimiser: int = 0) -> ServerState:
    generator = torch.Generator().manual_seed(round)
    tensors = [torch.randn(LAYOUT.size, generator=generator) for _ in range(optimiser + 1)]
    return ServerState(round, tensors[0], tuple(tensors[1:]))


def one_line(error: pytest.ExceptionInfo[FedveilError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


# The directory


def test_a_new_or_empty_directory_is_taken(tmp_path: Path) -> None:
    RunFiles(tmp_path / "a" / "b").create()
    (tmp_path / "empty").mkdir()
    RunFiles(tmp_path / "empty").create()
    assert (tmp_path / "a/b/checkpoints").is_dir()
    assert (tmp_path / "empty/checkpoints").is_dir()


def test_a_directory_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(FedveilError, match="already exists and is not empty; choose another"):
        RunFiles(tmp_path).create()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(FedveilError, match="is a file, not a directory"):
        RunFiles(tmp_path / "run").create()
    with pytest.raises(FedveilError) as caught:
        RunFiles(tmp_path / "run" / "below").create()
    one_line(caught)


@pytest.mark.parametrize("form", READABLE)
def test_a_run_directory_of_this_or_the_first_format_passes(files: RunFiles, form: int) -> None:
    files.write_json(files.manifest, {"format": form, "fedveil": "0.1.0"})
    files.spec.write_text("")
    files.check()


@pytest.mark.parametrize("missing", ["run.json", "spec.toml"])
def test_a_directory_without_its_papers_is_refused(files: RunFiles, missing: str) -> None:
    files.write_json(files.manifest, {"format": FORMAT})
    files.spec.write_text("")
    (files.directory / missing).unlink()
    with pytest.raises(FedveilError, match="not a run directory"):
        files.check()


@pytest.mark.parametrize("form", [FORMAT + 1, 0, None, "1"])
def test_another_format_is_refused_with_the_version_that_made_it(files: RunFiles, form: object) -> None:
    files.write_json(files.manifest, {"format": form, "fedveil": "9.9"})
    files.spec.write_text("")
    with pytest.raises(
        FedveilError, match=rf"made by fedveil 9\.9 in format {form}; this version reads formats 1 to 3"
    ):
        files.check()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b"\xff\xfe"])
def test_a_description_that_cannot_be_read_is_refused(files: RunFiles, content: bytes) -> None:
    files.manifest.write_bytes(content)
    files.spec.write_text("")
    with pytest.raises(FedveilError) as caught:
        files.check()
    assert one_line(caught).startswith(f"{files.manifest}: can't be read")


def test_json_comes_back_as_it_was(files: RunFiles) -> None:
    content = {"accuracy": 0.1 + 0.2, "name": "σ", "list": [1, None]}
    files.write_json(files.result, content)
    assert files.read_json(files.result) == content


# Checkpoints


def test_before_the_first_checkpoint_there_is_no_state(files: RunFiles) -> None:
    assert files.load_checkpoint(LAYOUT) is None


@pytest.mark.parametrize("optimiser", [0, 1, 2, 12])
def test_a_checkpoint_comes_back_bit_by_bit(files: RunFiles, optimiser: int) -> None:
    saved = state(7, optimiser)
    files.save_checkpoint(saved, LAYOUT)
    loaded = files.load_checkpoint(LAYOUT)
    assert loaded is not None
    assert loaded.round == 7
    assert torch.equal(loaded.parameters, saved.parameters)
    assert len(loaded.optimiser) == optimiser
    assert all(torch.equal(one, two) for one, two in zip(loaded.optimiser, saved.optimiser, strict=True))


def test_only_the_newest_checkpoint_is_kept(files: RunFiles) -> None:
    for round in (0, 1, 9, 10):
        files.save_checkpoint(state(round), LAYOUT)
    assert [path.name for path in files.checkpoints.iterdir()] == ["round-000010.safetensors"]
    assert torch.equal(files.load_checkpoint(LAYOUT).parameters, state(10).parameters)  # type: ignore[union-attr]


def test_the_newest_of_several_checkpoints_is_loaded(files: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # a crash before the old ones are removed
    for round in (2, 10, 9):
        files.save_checkpoint(state(round), LAYOUT)
    assert files.load_checkpoint(LAYOUT).round == 10  # type: ignore[union-attr]


def test_an_old_checkpoint_that_cannot_be_removed_is_one_line_and_the_new_one_is_safe(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.save_checkpoint(state(1), LAYOUT)
    unlink = Path.unlink

    def refusing(self: Path, missing_ok: bool = False) -> None:
        if self.name == "round-000001.safetensors":
            raise PermissionError(1, "Operation not permitted", str(self))
        unlink(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refusing)
        with pytest.raises(FedveilError) as caught:
            files.save_checkpoint(state(2), LAYOUT)
    assert one_line(caught) == f"{files.checkpoints}/round-000001.safetensors: Operation not permitted"
    assert torch.equal(files.load_checkpoint(LAYOUT).parameters, state(2).parameters)  # type: ignore[union-attr]
    files.save_checkpoint(state(3), LAYOUT)  # the next one removes both
    assert [path.name for path in files.checkpoints.iterdir()] == ["round-000003.safetensors"]


def test_older_checkpoints_that_a_crash_left_are_removed(files: RunFiles) -> None:
    files.save_checkpoint(state(1), LAYOUT)
    old = next(files.checkpoints.iterdir())
    content = old.read_bytes()
    files.save_checkpoint(state(2), LAYOUT)
    old.write_bytes(content)
    files.keep_newest_checkpoint()
    assert [path.name for path in files.checkpoints.iterdir()] == ["round-000002.safetensors"]


def test_a_half_written_checkpoint_is_not_seen(files: RunFiles) -> None:
    files.save_checkpoint(state(1), LAYOUT)
    (files.checkpoints / ".round-000002.safetensors.123.part").write_bytes(b"half")
    assert files.load_checkpoint(LAYOUT).round == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "directory"])
def test_a_damaged_checkpoint_stops_the_run_in_one_line(files: RunFiles, damage: str) -> None:
    files.save_checkpoint(state(3), LAYOUT)
    (path,) = files.checkpoints.iterdir()
    content = path.read_bytes()
    path.unlink()
    if damage == "directory":
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "cut": content[:-5], "noise": b"\xff" * len(content)}[damage])
    with pytest.raises(FedveilError) as caught:
        files.load_checkpoint(LAYOUT)
    assert one_line(caught).startswith(f"{path}: the checkpoint is damaged (")


def test_a_checkpoint_without_round_or_of_other_names_is_refused(files: RunFiles) -> None:
    path = files.checkpoints / "round-000001.safetensors"
    named = {f"model/{name}": tensor for name, tensor in LAYOUT.split(torch.zeros(LAYOUT.size)).items()}
    path.write_bytes(digested(named))
    with pytest.raises(FedveilError, match="can't be read"):
        files.load_checkpoint(LAYOUT)
    path.write_bytes(digested({"model/other": torch.zeros(3)}, {"round": "1"}))
    with pytest.raises(FedveilError, match="can't be read"):
        files.load_checkpoint(LAYOUT)


def test_a_checkpoint_of_other_shapes_is_refused(files: RunFiles) -> None:
    other = Layout.of(nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 2, bias=False)))
    files.save_checkpoint(ServerState(1, torch.zeros(other.size), ()), other)
    with pytest.raises(FedveilError, match="checkpoint"):
        files.load_checkpoint(LAYOUT)


def test_the_final_model_has_the_names_and_shapes_of_the_network(files: RunFiles) -> None:
    files.save_model(state(1).parameters, LAYOUT, NETWORK)
    loaded = load_file(files.model)
    assert {name: tuple(tensor.shape) for name, tensor in loaded.items()} == dict(
        zip(LAYOUT.names, LAYOUT.shapes, strict=True)
    )
    assert torch.equal(LAYOUT.join(loaded), state(1).parameters)


# Events


def write_rounds(files: RunFiles, count: int) -> None:
    files.append_event({"event": "start", "rounds_done": 0})
    for round in range(count):
        files.append_event({"event": "round", "round": round, "accuracy": 0.1 * round})


def rounds_of(files: RunFiles) -> list[int]:
    return [event["round"] for event in files.read_events() if event["event"] == "round"]


def test_no_events_yet_is_an_empty_list(files: RunFiles) -> None:
    assert files.read_events() == []


def test_events_come_back_in_order_with_their_time(files: RunFiles) -> None:
    write_rounds(files, 3)
    assert [event["event"] for event in files.read_events()] == ["start", "round", "round", "round"]
    assert all(event["time"] > 1e9 for event in files.read_events())
    assert rounds_of(files) == [0, 1, 2]


def test_trimming_keeps_the_events_of_published_rounds_and_drops_the_end(files: RunFiles) -> None:
    write_rounds(files, 4)
    files.append_event({"event": "end"})
    before = files.read_events()
    files.trim_events(2)
    assert files.read_events() == before[:3]


def test_trimming_a_run_without_events_makes_an_empty_file(files: RunFiles) -> None:
    files.trim_events(0)
    assert files.events.read_bytes() == b""


@pytest.mark.parametrize("torn", ['{"event": "rou', '{"event": "round", "round": 3}', "\x00\x00\x00"])
def test_a_torn_last_line_is_ignored_and_removed_by_trimming(files: RunFiles, torn: str) -> None:
    write_rounds(files, 3)
    with files.events.open("a") as file:
        file.write(torn)
    assert rounds_of(files) == [0, 1, 2]
    files.trim_events(3)
    files.append_event({"event": "round", "round": 3})
    assert rounds_of(files) == [0, 1, 2, 3]
    assert all(json.loads(line) for line in files.events.read_text().splitlines())


def test_a_line_that_is_no_event_is_passed_over(files: RunFiles) -> None:
    write_rounds(files, 1)
    with files.events.open("a") as file:
        file.write('nonsense\n[1]\n{"no": "event"}\n')
    write_rounds(files, 1)
    assert rounds_of(files) == [0, 0]


def test_events_that_are_no_text_are_an_error_in_one_line_or_passed_over(files: RunFiles) -> None:
    write_rounds(files, 1)
    with files.events.open("ab") as file:
        file.write(b"\xff\xfe\n")
    try:
        assert rounds_of(files) == [0]
    except FedveilError:
        return


def test_events_that_cannot_be_written_are_an_error_in_one_line(files: RunFiles) -> None:
    files.events.mkdir()
    with pytest.raises(FedveilError) as caught:
        files.append_event({"event": "start"})
    assert one_line(caught).endswith("Is a directory")


def test_the_mean_of_the_last_models_survives_a_checkpoint(files: RunFiles) -> None:
    averaged = replace(state(3), average=state(2).parameters)
    files.save_checkpoint(averaged, LAYOUT)
    loaded = files.load_checkpoint(LAYOUT)
    assert loaded is not None
    assert loaded.average is not None
    assert torch.equal(loaded.average, state(2).parameters)
    assert torch.equal(loaded.released, state(2).parameters)
    files.save_checkpoint(replace(state(4), average=state(4).parameters), LAYOUT)  # one memory for both
    files.save_checkpoint(state(5), LAYOUT)
    loaded = files.load_checkpoint(LAYOUT)
    assert loaded is not None
    assert loaded.average is None
