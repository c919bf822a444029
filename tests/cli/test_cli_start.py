"""Commands that make no tensor do not wait for PyTorch, and none for what it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from certificates import SIGNATORY, small_run
from missing_data import skip_without_data

from fedveil.core.signing import SigningKey
from fedveil.studies.certify import certify_run

WATCHED = """
import sys
from fedveil.cli import cli
for line in sys.argv[2:]:
    cli(line.split("|"), standalone_mode=False)
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split(",")))
    assert not loaded, (line, loaded)
"""
HEAVY = "torch,matplotlib,sklearn,pandas,dp_accounting"


def loads_nothing_of(modules: str, *lines: str) -> str:
    """What these commands print, one after another in one process that loads none of the modules."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, modules, *lines], capture_output=True, text=True, timeout=120, check=False
    )
    skip_without_data(done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_and_the_list_of_methods_load_no_arithmetic() -> None:
    printed = loads_nothing_of(f"{HEAVY},numpy,scipy,cattrs", "--version", "--help", "methods", "account|--help")
    assert "fed-cdp" in printed


def test_a_slip_in_a_run_is_answered_without_pytorch() -> None:
    slips = "import sys\nfrom fedveil.cli import cli\nfrom fedveil.core.errors import FedveilError\n"
    slips += "for words in (['fedavgg'], ['fed-cdp', '--set', 'lr=1']):\n"
    slips += "    try:\n        cli(['run', *words], standalone_mode=False)\n"
    slips += "    except FedveilError as error:\n        print(error)\n"
    slips += "assert 'torch' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", slips], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("did you mean") == 2


def test_the_account_of_a_preset_needs_no_pytorch() -> None:
    printed = loads_nothing_of(HEAVY, "account|fed-cdp", "account|private-records|--json", "calibrate|--epsilon|3")
    assert "promised" in printed


def test_a_certificate_is_checked_and_a_run_accounted_without_it(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", rounds=1)
    certificate = certify_run(run, SigningKey.generate(), signatory=SIGNATORY).path
    printed = loads_nothing_of("torch,matplotlib,sklearn,pandas", f"verify|{certificate}", f"account|{run}")
    assert "holds: " in printed
    assert "spent" in printed
