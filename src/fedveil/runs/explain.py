"""What a spec will do, and what a front door chose for it, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.config.spec import Source, Spec
from fedveil.data.dataset import Dataset
from fedveil.runs.describe import choice_lines, clients_words, clip_words, training_words
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import prepare


def explain(
    source: Source, overrides: Mapping[str, Any] | None = None, *, dataset: Dataset | None = None
) -> tuple[Spec, list[str]]:
    """The spec that would run, its noise solved for, and lines that say what it does and why."""
    prepared = prepare(resolve_for(source, overrides, dataset), dataset)
    spec = prepared.spec
    lines = [f"{spec.base} on {prepared.dataset.name}: {clients_words(spec, prepared.context)}."]
    lines += [*training_words(spec), *clip_words(spec)]
    lines += [*choice_lines(spec), *map(str, prepared.changes)]
    return spec, lines
