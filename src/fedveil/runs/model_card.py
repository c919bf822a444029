"""What goes with a trained model: how to load it, what it takes, what it says, what is guaranteed.

It is made to be published with the model. So it says what was promised, not what was spent, and nothing that was
measured on records; of a schema only what is public.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from fedveil.core.atomic import write_whole
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Guarantee
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Task
from fedveil.data.encoding_sentences import column_encoding, column_meaning
from fedveil.data.schema import FROM_DATA, Schema, feature_names
from fedveil.data.schema_file import schema_digest, schema_toml
from fedveil.models.loading_lines import loading_lines
from fedveil.report.page.model_card_markdown import model_card_markdown
from fedveil.runs.files import RunFiles
from fedveil.runs.prepare import Prepared

CARD_FORMAT = 1


def write_model_card(
    files: RunFiles, prepared: Prepared, rounds: int, cells: tuple[Guarantee, ...], sha256: str
) -> None:
    """Beside the model, whose file has this SHA-256. `cells` are guarantees that may be told to everybody."""
    card = model_card(prepared, rounds, cells, sha256)
    files.write_ending(files.card, card)
    write_whole(files.card.with_suffix(".md"), model_card_markdown(card, cells).encode())


def model_card(prepared: Prepared, rounds: int, cells: tuple[Guarantee, ...], sha256: str) -> dict[str, Any]:
    """All that the card says, ready for JSON."""
    spec, dataset = prepared.spec, prepared.dataset
    outputs = dataset.task.outputs
    lines = loading_lines(
        prepared.model,
        spec.model.name,
        dataset.input_shape,
        outputs,
        spec.model.options,
        prepared.initial,
        tokens=dataset.tokens,
    )
    return {
        "format": CARD_FORMAT,
        "fedveil": version("fedveil"),
        "model": {
            "file": "model.safetensors",
            "sha256": sha256,
            "name": spec.model.name,
            "options": spec.model.options,
            "parameters": prepared.layout.size,
            "input_shape": list(dataset.input_shape),
            "tokens": dataset.tokens,
            "outputs": outputs,
            "load": list(lines),
        },
        "trained": {"method": spec.base, "data": dataset.name, "about": dataset.description, "rounds": rounds},
        "task": _task_facts(dataset.task, dataset.schema),
        "schema": None if dataset.schema is None else _schema_facts(dataset.schema),
        "guarantees": [cell.to_dict() for cell in cells],
    }


def _task_facts(task: Task, schema: Schema | None) -> dict[str, Any]:
    target = {} if schema is None else {"target": schema.target}
    private = schema is not None and schema.target_column.source == FROM_DATA
    if isinstance(task, Classification):
        return {"kind": "classification", **target, "classes": None if private else list(task.class_names)}
    edges = {} if private else {"low": task.low, "high": task.high}
    return {"kind": "regression", **target, **edges, "unit": task.unit}


def _schema_facts(schema: Schema) -> dict[str, Any]:
    """The whole schema if it is public; otherwise what of it is."""
    facts: dict[str, Any] = {
        "openness": str(schema.openness),
        "columns": [
            {
                "name": column.name,
                "type": column.kind,
                "features": list(feature_names(column)) if column.source != FROM_DATA else len(feature_names(column)),
                "meaning": column_meaning(column),
                "encoding": column_encoding(column),
            }
            for column in schema.input_columns
        ],
    }
    if schema.openness is Openness.PUBLIC:
        facts |= {"digest": schema_digest(schema), "table": tomllib.loads(schema_toml(schema))}
    return facts


def read_model_card(files: RunFiles) -> Mapping[str, Any]:
    """The card of a finished run."""
    if not files.card.is_file():
        why = "an older version made the run" if files.result.exists() else "the run has not ended"
        raise FedveilError(f"{files.directory}: has no model card ({why})")
    card = files.read_ending(files.card)
    model = card.get("model")
    needed = {"sha256": str, "input_shape": list, "outputs": int, "tokens": bool}
    if (
        card.get("format") != CARD_FORMAT
        or not isinstance(model, dict)
        or not all(isinstance(model.get(key), kind) for key, kind in needed.items())
    ):
        raise FedveilError(f"{files.card}: not a model card of this version")
    return card
