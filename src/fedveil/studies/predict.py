"""What a run's model says of new records: classes with their probabilities, or numbers in their unit."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from fedveil.config.spec import resolve
from fedveil.core.atomic import disk_errors, whole_file
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.tasks import Classification, Task, read_task
from fedveil.data.encoded_table import encoded_blocks
from fedveil.data.encoding import TableEncoder
from fedveil.data.growing_array import GrowingArray
from fedveil.data.new_records import new_records
from fedveil.data.schema import Schema
from fedveil.data.schema_file import read_schema, schema_digest
from fedveil.data.sources import sha256_of
from fedveil.data.table_sources import check_columns, open_table
from fedveil.models.registry import MODELS, build
from fedveil.runs.files import RunFiles
from fedveil.runs.model_card import read_model_card


@dataclass(frozen=True, eq=False)
class Predictions:
    """For each record, in their order: probabilities [N, classes], or numbers [N] in the unit of the target.

    Rows that the schema leaves out are NaN. `names` are the files of pictures, and empty for rows.
    """

    target: str
    task: Task
    values: NDArray[np.float32]
    names: tuple[str, ...] = ()
    out: Path | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def classes(self) -> list[str | None]:
        """The most probable class of every record; None where the schema leaves a row out."""
        return _most_probable(self.task, self.values)


def load_model(run: str | Path, *, trust_code: bool = False) -> nn.Module:
    """The trained network of a finished run, ready to be called.

    A network of the user's own is made by code that the run names. It is imported only with `trust_code`: who made the
    run could have named anything.
    """
    files = _finished(run)
    card = read_model_card(files)
    spec = resolve(files.spec)
    if spec.model.name not in MODELS and not trust_code:
        raise ArgumentError(
            "trust_code",
            f"the network of {files.directory} is made by {spec.model.name!r}, which would be imported and executed;"
            " allow that if you trust whoever made the run",
        )
    with disk_errors(files.model):
        content = files.model.read_bytes()
    if sha256_of(content) != card["model"]["sha256"]:
        raise FedveilError(
            f"{files.model}: not the model that the run ended with (its SHA-256 is not that of the card)"
        )
    shape, outputs, tokens = (card["model"][key] for key in ("input_shape", "outputs", "tokens"))
    model = build(spec.model.name, shape, outputs, spec.model.options, seed=files.initial() or 0, tokens=tokens)
    try:
        model.load_state_dict(safetensors.torch.load(content))
    except (SafetensorError, RuntimeError) as error:
        raise FedveilError(f"{files.model}: can't be loaded ({' '.join(str(error).split())[:200]})") from None
    return model.eval()


def predict(
    run: str | Path,
    data: object,
    *,
    out: str | Path | None = None,
    trust_code: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Predictions:
    """Predict the target for every record of `data`.

    Where a run's records were rows of a table, `data` is one as `read_table` takes it, encoded by the schema that the
    run kept. Otherwise it is a folder of pictures, which are brought to the size that the model takes, a `.npy` file,
    an array or a tensor of records as the model was trained on. With `out` predictions are also written into a CSV
    file, which appears when all of them are in it.
    """
    files = _finished(run)
    schema = run_schema(files)
    model = load_model(run, trust_code=trust_code)
    asked = _table_questions(data, schema) if schema is not None else _other_questions(data, files)
    task = asked.task
    values = GrowingArray((task.outputs,) if isinstance(task, Classification) else (), np.float32)
    rows = 0
    with ExitStack() as stack:
        file = None if out is None else stack.enter_context(whole_file(Path(out), private=True))
        _write(file, [[asked.heading, *_headings(asked.target, task)]])
        for block in asked.blocks:
            said = _said(model, block, task)
            values.add(said)
            _write(file, _lines(task, said, asked.called(rows, len(said))))
            rows += len(said)
            if progress is not None:
                progress(rows)
        if not rows:
            raise FedveilError(f"{asked.where}: has no rows")
    return Predictions(asked.target, task, values.finish(), asked.names, None if out is None else Path(out))


@dataclass(frozen=True)
class _Questions:
    """What a model is asked: blocks of inputs, with the places of those that are kept, and what they are called."""

    where: str
    target: str
    task: Task
    heading: str
    blocks: Iterator[tuple[Tensor, NDArray[np.bool_]]]
    names: tuple[str, ...] = ()  # without names rows are counted from 1

    def called(self, first: int, count: int) -> list[str]:
        if self.names:
            return list(self.names[first : first + count])
        return [str(row + 1) for row in range(first, first + count)]


def _table_questions(data: object, schema: Schema) -> _Questions:
    try:
        table = open_table(data, schema.delimiter)
    except FedveilError as error:
        raise FedveilError(f"data: {error}") from None

    def blocks() -> Iterator[tuple[Tensor, NDArray[np.bool_]]]:
        encoder = TableEncoder(schema, labelled=False)
        check_columns(table, encoder.needed)
        for _, encoded in encoded_blocks(table, encoder, encoder.needed):
            yield torch.from_numpy(encoded.inputs), encoded.kept

    return _Questions(table.name, schema.target, schema.task, "row", blocks())


def _other_questions(data: object, files: RunFiles) -> _Questions:
    card, task = read_model_card(files), read_task(files.read_json(files.manifest).get("task"))
    if task is None:
        raise FedveilError(f"{files.directory}: does not say what its model predicts (an older version made the run)")
    records = new_records(data, card["model"]["input_shape"], tokens=card["model"]["tokens"])
    blocks = ((block, np.ones(len(block), dtype=np.bool_)) for block in records.blocks)
    target = "class" if isinstance(task, Classification) else "number"
    return _Questions("data", target, task, records.heading, blocks, records.names)


def _said(model: nn.Module, block: tuple[Tensor, NDArray[np.bool_]], task: Task) -> NDArray[np.float32]:
    """What the model says of a block; NaN for the rows that were left out."""
    inputs, kept = block
    with torch.no_grad():
        outputs = model(inputs)
    said = _in_their_unit(task, outputs.to(torch.float64).numpy())
    values = np.full((len(kept), *said.shape[1:]), np.nan, dtype=np.float32)
    values[kept] = said
    return values


def run_schema(files: RunFiles) -> Schema | None:
    """The schema that a run's records were encoded with, if it is the one that the run began with; None: no table."""
    digest = files.read_json(files.manifest).get("schema")
    if digest is None:
        return None
    schema = read_schema(files.schema)
    if schema_digest(schema) != digest:
        raise FedveilError(
            f"{files.schema}: not the schema that the run began with (its digest is not that of run.json)"
        )
    return schema


def _finished(run: str | Path) -> RunFiles:
    if not isinstance(run, str | Path):
        raise ArgumentError("run", f"must be the directory of a run, not {type(run).__name__}")
    files = RunFiles(Path(run))
    files.check()
    return files


def _in_their_unit(task: Task, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(task, Classification):
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    return task.low + (np.clip(outputs[:, 0], -1.0, 1.0) + 1.0) * task.half_width


def _headings(target: str, task: Task) -> list[str]:
    if isinstance(task, Classification):
        return [target, *(f"probability of {name}" for name in task.class_names)]
    return [f"{target} ({task.unit})" if task.unit else target]


def _most_probable(task: Task, values: NDArray[np.float32]) -> list[str | None]:
    if not isinstance(task, Classification):
        raise FedveilError("a number is predicted, which has no classes")
    names = [*task.class_names, None]
    gone = np.isnan(values[:, 0])
    return [names[place] for place in np.where(gone, -1, np.where(gone[:, None], 0.0, values).argmax(axis=1))]


def _lines(task: Task, values: NDArray[np.float32], names: Sequence[str]) -> list[list[Any]]:
    if isinstance(task, Classification):
        return [
            [name, said or "", *("" if said is None else f"{value:.6f}" for value in line)]
            for name, said, line in zip(names, _most_probable(task, values), values.tolist(), strict=True)
        ]
    return [
        [name, "" if np.isnan(value) else f"{value:.6g}"] for name, value in zip(names, values.tolist(), strict=True)
    ]


def _write(file: BinaryIO | None, lines: list[list[Any]]) -> None:
    if file is not None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        file.write(text.getvalue().encode())


def predictions_record(predictions: Predictions) -> Mapping[str, Any]:
    """What a command says of predictions: where they are, and how many of each class."""
    facts: dict[str, Any] = {"rows": len(predictions), "target": predictions.target, "out": str(predictions.out)}
    if isinstance(predictions.task, Classification):
        classes = predictions.classes
        facts["left_out"] = classes.count(None)
        facts["classes"] = {name: classes.count(name) for name in predictions.task.class_names}
    else:
        facts["left_out"] = int(np.isnan(predictions.values).sum())
    return facts
