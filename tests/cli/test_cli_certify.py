"""The commands around a certificate, as somebody types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import SIGNATORY, small_run


def fedveil(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedveil.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("commands")
    small_run(place / "run")
    assert fedveil("key", "--out", "mine.key", folder=place).returncode == 0
    return place


def test_from_key_to_verified_certificate_and_registry_entry(folder: Path) -> None:
    made = fedveil(
        "certify", "run", "--key", "mine.key", "--signatory", SIGNATORY, "--for-release", "--registry", "entry.yaml",
        folder=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "Whoever sees everything the server saw" in made.stdout
    assert (folder / "entry.yaml").is_file()
    checked = fedveil(
        "verify", "run/certificate.json", "--key", "mine.key.pub", "--run", "run", "--json", folder=folder
    )
    assert checked.returncode == 0, checked.stderr
    facts = json.loads(checked.stdout)
    assert facts["holds"]
    assert facts["replayed"]


def test_a_spoilt_certificate_is_one_line_and_an_exit_code(folder: Path) -> None:
    fedveil("certify", "run", "--key", "mine.key", "--signatory", "me", "--out", "spoilt.json", folder=folder)
    text = (folder / "spoilt.json").read_text(encoding="utf-8")
    (folder / "spoilt.json").write_text(text.replace("record", "redord", 1), encoding="utf-8")
    refused = fedveil("verify", "spoilt.json", folder=folder)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1
    assert "does NOT hold" in refused.stderr


def test_a_site_countersigns(folder: Path) -> None:
    fedveil("key", "--out", "site.key", folder=folder)
    options = ("--key", "mine.key", "--signatory", "me", "--site", "cleveland=site.key.pub", "--out", "both.json")
    made = fedveil("certify", "run", *options, folder=folder)
    assert "waits for the signatures of site cleveland" in made.stdout
    assert fedveil("verify", "both.json", folder=folder).returncode == 2
    signed = fedveil("countersign", "both.json", "--key", "site.key", folder=folder)
    assert "complete" in signed.stdout, signed.stderr
    assert fedveil("verify", "both.json", folder=folder).returncode == 0


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
def test_wrong_input_is_one_line(folder: Path, arguments: tuple[str, ...]) -> None:
    done = fedveil(*arguments, folder=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
