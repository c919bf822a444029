"""What a schema makes of a table, in facts that can be printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedveil.core.tasks import Classification, Task
from fedveil.data.encoded_table import EncodedTable
from fedveil.data.schema import Schema
from fedveil.data.schema_file import schema_digest


def checked_schema(schema: Schema) -> dict[str, Any]:
    return {
        "target": schema.target,
        "predicts": task_in_words(schema.task),
        "columns": [column.name for column in schema.columns],
        "features": list(schema.features),
        "private_columns": list(schema.private_columns),
        "openness": str(schema.openness),
        "digest": schema_digest(schema),
    }


def checked_table(table: EncodedTable) -> dict[str, Any]:
    """Counts for the owner of the table; they are statistics of its records."""
    sites = {}
    if table.site_of_row is not None:
        counts = np.bincount(table.site_of_row, minlength=len(table.site_names)).tolist()
        sites = dict(zip(table.site_names, counts, strict=True))
    return {
        "rows": table.rows,
        "dropped": len(table.dropped),
        "sites": sites,
        "missing": dict(table.missing),
        "outside": dict(table.outside),
        "ignored": list(table.ignored),
    }


def task_in_words(task: Task) -> str:
    """What is predicted: the classes, or the range of a number."""
    if isinstance(task, Classification):
        return f"{len(task.class_names)} classes: {', '.join(task.class_names)}"
    return f"a number from {task.low:g} to {task.high:g}{f' {task.unit}' if task.unit else ''}"
