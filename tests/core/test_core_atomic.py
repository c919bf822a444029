"""Files appear whole, by rename, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedveil.core.atomic import disk_errors, make_folder, whole_folder, write_whole
from fedveil.core.errors import FedveilError


def test_a_file_is_written_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, b"new", bytearray(b"er"))
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_failure_while_writing_leaves_the_old_file_and_no_rest(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(*((os, "fsync") if moment == "fsync" else (Path, "replace")), full)
    with pytest.raises(FedveilError, match=r"file: No space left on device$"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_synced_before_it_is_renamed_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (done.append("sync"), fsync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append("rename"), replace(self, to))[1])
    write_whole(tmp_path / "file", b"content")
    assert done == ["sync", "rename", "sync"]


def test_the_name_of_a_new_folder_and_of_those_above_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), fsync(file))[1])
    make_folder(tmp_path / "a" / "b" / "c", 0o700)
    assert synced == [path.stat().st_ino for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert (tmp_path / "a/b/c").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "a" / "b" / "c")


def test_writing_into_a_missing_directory_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FedveilError) as caught:
        write_whole(tmp_path / "nowhere" / "file", b"")
    assert str(caught.value) == f"{tmp_path}/nowhere/file: there is no directory {tmp_path}/nowhere"


def test_a_place_that_can_not_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(FedveilError) as caught:
        write_whole(tmp_path, b"")
    assert str(caught.value) == f"{tmp_path}: is a directory, not a file"
    too_long = tmp_path / ("x" * 250)  # the name of the file that is filled first is longer
    with pytest.raises(FedveilError) as caught:
        write_whole(too_long, b"")
    assert str(caught.value) == f"{too_long}: File name too long"
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_disk_name_the_file_or_else_the_place(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match=r"^/there: Permission denied$"), disk_errors(Path("/here")):
        raise PermissionError(13, "Permission denied", "/there")
    with pytest.raises(FedveilError, match=r"^/here: out of luck$"), disk_errors(Path("/here")):
        raise OSError("out of luck")


@pytest.mark.parametrize("existed", [True, False])
def test_a_folder_whose_filling_fails_is_as_it_was_before(tmp_path: Path, existed: bool) -> None:
    path = tmp_path / "home"
    if existed:
        path.mkdir()

    def interrupted() -> None:
        with whole_folder(path):
            path.mkdir(exist_ok=True)
            (path / "key").write_text("secret")
            (path / "inner").mkdir()
            (path / "inner" / "file").write_text("")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.exists() == existed
    assert list(tmp_path.rglob("*")) == ([path] if existed else [])


def test_what_was_in_a_folder_before_stays(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("mine")
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path):
        raise KeyboardInterrupt
    assert (tmp_path / "ledger").read_text() == "mine"
    with whole_folder(tmp_path / "new"):
        (tmp_path / "new").mkdir()
    assert (tmp_path / "new").is_dir()


def test_two_processes_do_not_fill_the_same_folder(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "home"):
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "key").write_text("the first one's")
        with pytest.raises(FedveilError, match="another process is making"), whole_folder(tmp_path / "home"):
            pass
    assert (tmp_path / "home" / "key").read_text() == "the first one's"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
