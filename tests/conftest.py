"""What every test relies on: one thread, examples that do not change from run to run, records made on the spot."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Tests run beside each other, one on each core. More threads, here and in what tests start, would be in their way.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import click
import jsonschema
import pytest
import torch
from cores import use_one_core
from hypothesis import settings

from fedveil.cli import main, options
from fedveil.cli.json_schema import schema_of
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.data.sources import DataSetMissing

settings.register_profile("thorough", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=40)
settings.load_profile("quick")

# Each of the processes that share the tests keeps to a core of its own, and so does all that it starts. Runs then have
# one worker unless a test asks for more; every worker would import torch first, which takes longer than most runs here.
if "PYTEST_XDIST_WORKER" in os.environ:
    use_one_core()

# A shell starts background jobs with Ctrl-C ignored, and so would be every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


PUBLIC = {"features": "public", "validation_records": "public"}
"""What is declared of records that code made up."""

LONG = {
    "test_examples.py", "test_docs_blocks.py", "test_wheel.py", "test_cli.py", "test_runtimes_local.py",
    "test_faults.py", "test_runtimes_nvflare.py", "test_federation_connecting.py",
}  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Where slow tests run, properties are tried on more examples, too."""
    settings.load_profile("quick" if config.getoption("markexpr") else "thorough")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files with the longest tests come first, so that at the end no core waits for one of them."""
    items.sort(key=lambda item: item.path.name not in LONG)


@contextmanager
def skipped_without_data() -> Iterator[None]:
    """A data set that is not on this machine skips what needs it: nobody has to fetch all of them to run the tests."""
    try:
        yield
    except DataSetMissing as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    with skipped_without_data():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with skipped_without_data():
        return (yield)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads inside a small tensor operation are slower than one, more so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def declared_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command prints as JSON in any test follows the schema in the documents, without a field more."""

    def checked(table: Mapping[str, Any]) -> str:
        context, words = click.get_current_context(), list[str]()
        while context.parent is not None:
            words.insert(0, str(context.command.name))
            context = context.parent
        text = json.dumps(table)
        jsonschema.validate(json.loads(text), schema_of(" ".join(words), closed=True))
        return text

    monkeypatch.setattr(options, "json_text", checked)


def make_pictures(count: int, seed: int) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 4
    noise = torch.randint(0, 64, (count, 1, 8, 8), generator=generator)
    return Examples((noise + 48 * labels[:, None, None, None]).to(torch.uint8), labels)


@pytest.fixture(scope="session")
def pictures() -> Dataset:
    """A data set of small pictures that needs no file, whatever FEDVEIL_DATA says."""
    return from_tensors("pictures", make_pictures(120, 1), make_pictures(40, 2), 4, **PUBLIC)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Calls the command line in this process; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedveil", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def make_blobs(count: int, seed: int) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.eye(3, 6) * 3
    return Examples(centres[labels] + torch.randn(count, 6, generator=generator), labels)


@pytest.fixture(scope="session")
def blobs() -> Dataset:
    return from_tensors("blobs", make_blobs(300, 1), make_blobs(90, 2), 3, **PUBLIC)


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Settings that make any method of the zoo a matter of milliseconds on the blobs."""
    return {
        "data.name": "blobs",
        "data.clients": 10,
        "data.records": 30,
        "data.partition": "random",
        "model.name": "mlp",
        "model.options.hidden": [8],
        "cohort": {"kind": "fixed", "size": 4},
        "batch": {"kind": "partition", "size": 5},
        "local.steps": 6,
        "stop.rounds": 4,
        "seed": 1,
    }
