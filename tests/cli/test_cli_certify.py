"""The commands around a certificate, as somebody types them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from certificates import SIGNATORY, small_run

from fedveil.cli import main
from fedveil.core.signing import make_key_files


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Fedveil = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("commands")
    small_run(place / "run")
    make_key_files(place / "mine.key")
    make_key_files(place / "site.key")
    return place


@pytest.fixture
def fedveil(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fedveil:
    def call(*arguments: str) -> Done:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["fedveil", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return Done(int(stop.value.code or 0), printed.out, printed.err)

    return call


def test_from_key_to_verified_certificate_and_registry_entry(folder: Path, fedveil: Fedveil) -> None:
    made = fedveil(
        "certify", "run", "--key", "mine.key", "--signatory", SIGNATORY, "--for-release", "--registry", "entry.yaml",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "Whoever sees everything the server saw" in made.stdout
    assert (folder / "entry.yaml").is_file()
    checked = fedveil("verify", "run/certificate.json", "--key", "mine.key.pub", "--run", "run", "--json")
    assert checked.returncode == 0, checked.stderr
    facts = json.loads(checked.stdout)
    assert facts["holds"]
    assert facts["replayed"]


def test_a_spoilt_certificate_is_one_line_and_an_exit_code(folder: Path, fedveil: Fedveil) -> None:
    fedveil("certify", "run", "--key", "mine.key", "--signatory", "me", "--out", "spoilt.json")
    text = (folder / "spoilt.json").read_text(encoding="utf-8")
    (folder / "spoilt.json").write_text(text.replace("record", "redord", 1), encoding="utf-8")
    refused = fedveil("verify", "spoilt.json")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1
    assert "does NOT hold" in refused.stderr


def test_a_site_countersigns(folder: Path, fedveil: Fedveil) -> None:
    assert (folder / "site.key.pub").is_file()
    options = ("--key", "mine.key", "--signatory", "me", "--site", "cleveland=site.key.pub", "--out", "both.json")
    made = fedveil("certify", "run", *options)
    assert "waits for the signatures of site cleveland" in made.stdout
    assert fedveil("verify", "both.json").returncode == 2
    signed = fedveil("countersign", "both.json", "--key", "site.key")
    assert "complete" in signed.stdout, signed.stderr
    assert fedveil("verify", "both.json").returncode == 0


def test_a_key_is_made_and_named(folder: Path, fedveil: Fedveil) -> None:
    made = fedveil("key", "--out", "new.key")
    assert made.returncode == 0
    assert "fingerprint: " in made.stdout
    assert (folder / "new.key.pub").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ("certify", "run", "--key", "none.key", "--signatory", "me"),
        ("certify", "run", "--key", "mine.key.pub", "--signatory", "me"),
        ("certify", "run", "--key", "mine.key", "--signatory", "me", "--site", "cleveland"),
        ("certify", "nothing", "--key", "mine.key", "--signatory", "me"),
        ("key", "--out", "mine.key"),
        ("verify", "none.json"),
        ("verify", "mine.key"),
        ("countersign", "mine.key", "--key", "mine.key"),
    ],
)
def test_wrong_input_is_one_line(folder: Path, fedveil: Fedveil, arguments: tuple[str, ...]) -> None:
    done = fedveil(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
