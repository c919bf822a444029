"""What a spec will do, and what a front door chose for it, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.config.spec import Source, Spec
from fedveil.data.dataset import Dataset, to_float
from fedveil.engine.batched import choose
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.job import Job
from fedveil.engine.layered import Layered
from fedveil.models.registry import fixed_part
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
    lines += [*training_words(spec), *clip_words(spec), *_gradients_words(prepared.job)]
    lines += [*choice_lines(spec), *map(str, prepared.changes)]
    return spec, lines


def _gradients_words(job: Job) -> list[str]:
    """How gradients are computed, and why not faster."""
    model, records = job.model, job.sites.examples.inputs[:1]
    parts = fixed_part(model)
    if parts is not None:
        features, model = parts
        records = features(to_float(records))
    path = choose(model, records, job.objective)
    if isinstance(path, Fused):
        return ["Gradients of many clients are computed at once; the network is a row of known layers (fused path)."]
    if isinstance(path, Layered):
        slow = [f"  '{name}' is taken example by example ({why})." for name, why in path.reasons.items()]
        return ["Gradients of many clients are computed at once, part by part (layered path).", *slow]
    why = f", since the layered path can't take this network: {path.because}" if isinstance(path, General) else ""
    return [f"Gradients are computed example by example (general path){why}."]
