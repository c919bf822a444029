"""Run a spec into a directory, or go on with one that was interrupted."""

from __future__ import annotations

import datetime
import secrets
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fedveil.config.spec import Source, Spec, resolve
from fedveil.core.atomic import write_whole
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.data.schema_file import schema_toml
from fedveil.engine.admission import Admission
from fedveil.engine.loop import MakeRuntime, Runtime
from fedveil.report.terminal.reading_progress import reading_notes
from fedveil.report.terminal.run_progress import Reporter, SilentReporter
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.book import RECORDS_KEY_BYTES, check_records, check_schema, opened_ledger, pins_of, read_book
from fedveil.runs.budgeted_admission import admission_of
from fedveil.runs.files import RunFiles
from fedveil.runs.manifest import manifest, read_context
from fedveil.runs.prepare import Prepared, prepare, prepared_for
from fedveil.runs.result import Result
from fedveil.runs.round_by_round import train_rounds
from fedveil.runs.round_updates import OnRound
from fedveil.runtimes.local import on_this_machine


def run(
    source: Source = "fed-cdp",
    overrides: Mapping[str, Any] | None = None,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    chunk: int | None = None,
    dataset: Dataset | None = None,
    reporter: Reporter | None = None,
    runtime: MakeRuntime | None = None,
    on_round: OnRound | None = None,
) -> Result:
    """Train a method, a spec file or a table of settings, with dotted `overrides`, into a new directory.

    `rounds` and `seed` are short for the overrides `stop.rounds` and `seed`.
    `dataset` brings your own records in place of a named data set; the spec then carries its name.
    `runtime` says where the clients work; by default on this machine, with so many `workers` and clients in a `chunk`.
    `on_round` is called with a `RoundUpdate` after each round: figures, seconds, and what was spent so far.
    """
    numbers = {"rounds": rounds, "seed": seed, "workers": workers, "chunk": chunk}
    functions = {"runtime": runtime, "on_round": on_round}
    check_arguments(overrides=overrides, dataset=dataset, paths={"out": out}, numbers=numbers, functions=functions)
    settings = dict(overrides or {})
    settings |= {} if rounds is None else {"stop.rounds": rounds}
    settings |= {} if seed is None else {"seed": seed}
    reporter = reporter or SilentReporter()
    prepared = prepared_for(source, settings, dataset, reading_notes(reporter))
    files = RunFiles(Path(out) if out is not None else _new_directory(prepared.spec))
    return begin_training(prepared, files, runtime or on_this_machine(workers, chunk), reporter, on_round)


def begin_training(
    prepared: Prepared,
    files: RunFiles,
    runtime: MakeRuntime,
    reporter: Reporter | None = None,
    on_round: OnRound | None = None,
    *,
    at_sites: bool = False,
) -> Result:
    """Train what was prepared into a new directory. `at_sites` as in `continue_training`."""
    if prepared.spec.evaluation.sigma is not None and not at_sites:
        raise FedveilError("evaluation.sigma: real sites count on records of their own; a simulation has none to ask")
    training = runtime(prepared.job)
    admission = admission_of(prepared.context, [])  # a budget that can't be kept is refused before there is a run
    files.create()
    write_whole(files.spec, prepared.spec.to_toml().encode())
    if prepared.dataset.schema is not None:  # it may hold what was read off private records
        write_whole(files.schema, schema_toml(prepared.dataset.schema).encode(), private=True)
    write_whole(files.records_key, secrets.token_bytes(RECORDS_KEY_BYTES), private=True)
    files.write_json(files.manifest, manifest(prepared))
    return _train(prepared, files, training, reporter or SilentReporter(), on_round, admission, at_sites=at_sites)


def resume(
    directory: str | Path,
    *,
    workers: int | None = None,
    chunk: int | None = None,
    dataset: Dataset | None = None,
    reporter: Reporter | None = None,
    runtime: MakeRuntime | None = None,
    on_round: OnRound | None = None,
) -> Result:
    """Go on after the last published round; a seeded run ends as if it had never been interrupted."""
    numbers, functions = {"workers": workers, "chunk": chunk}, {"runtime": runtime, "on_round": on_round}
    check_arguments(dataset=dataset, paths={"directory": directory}, numbers=numbers, functions=functions)
    files = RunFiles(Path(directory))
    files.check()
    if files.result.exists():
        return _stored_result(files, dataset)
    files.check_continuable()
    reporter = reporter or SilentReporter()
    initial = files.initial()
    prepared = prepare(resolve(files.spec), dataset, initial=initial, progress=reading_notes(reporter))
    check_schema(files, prepared.dataset)
    return continue_training(prepared, files, runtime or on_this_machine(workers, chunk), reporter, on_round)


def continue_training(
    prepared: Prepared,
    files: RunFiles,
    runtime: MakeRuntime,
    reporter: Reporter | None = None,
    on_round: OnRound | None = None,
    *,
    at_sites: bool = False,
) -> Result:
    """Go on after the last published round.

    `at_sites`: clients are real sites, which remember. Asked once more, they give the very answers that they gave
    before; a round that was charged and not finished is then asked of the same clients, and nobody pays for it again:
    nothing is shown that was not shown. Models of their own stay with them.
    """
    return _train(prepared, files, runtime(prepared.job), reporter or SilentReporter(), on_round, at_sites=at_sites)


def _train(
    prepared: Prepared,
    files: RunFiles,
    training: AbstractContextManager[Runtime],
    reporter: Reporter,
    on_round: OnRound | None,
    admission: Admission | None = None,
    *,
    at_sites: bool,
) -> Result:
    """`admission` is that of a run that has just begun; else it follows from what the ledger holds."""
    try:
        with opened_ledger(files) as ledger, training as runtime:
            files.clear_parts()
            ledger.begin(pins_of(files, prepared.context, prepared.dataset))
            return train_rounds(prepared, files, ledger, runtime, reporter, on_round, admission, at_sites)
    except KeyboardInterrupt:
        home = ["fedveil", "federation", "run", "--home", str(files.directory.parent)]
        again = shlex.join(home) if at_sites else _resume_words(prepared.spec, files)
        reporter.note(f"what was published is safe; go on with: {again}")
        raise


def _resume_words(spec: Spec, files: RunFiles) -> str:
    """The command that goes on; records of one's own can only be given from Python."""
    if spec.data.reproducible:
        return shlex.join(["fedveil", "resume", str(files.directory)])
    return f"fedveil.resume('{files.directory}', dataset=…)"


def _stored_result(files: RunFiles, dataset: Dataset | None) -> Result:
    """What a finished run said at its end, if it is still the run that it was."""
    spec = resolve(files.spec)
    if files.ledger.is_file():
        with opened_ledger(files) as ledger:
            read_book(files, ledger, spec, read_context(spec, files.read_json(files.manifest).get("terms")))
        if dataset is not None:
            check_records(files, dataset)
    again = ""
    if any(files.checkpoints.glob("round-*.safetensors")):
        again = f"; remove it, and it is made again from the last round: {_resume_words(spec, files)}"
    try:
        return Result.from_dict(files.read_result(), files.directory, spec.method)
    except (KeyError, TypeError, ValueError):
        raise FedveilError(f"{files.result}: not a result of this version{again}") from None
    except FedveilError as error:
        raise FedveilError(f"{error}{again}") from None


def _new_directory(spec: Spec) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    directory = Path("runs") / f"{stamp}-{spec.base}-{spec.data.name}-{secrets.token_hex(2)}"
    if directory.exists():
        raise FedveilError(f"{directory}: already exists")
    return directory
