"""What a spec promises, before a tensor is made: the spec that would run, and all that the accountant must know of it.

A network of `fedveil.models` is not built for it, and of a data set that has a name no tensor is made. So the promise
of a preset needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedveil.accounting.calibrate import calibrate
from fedveil.accounting.context import Context
from fedveil.config.data_spec import DataSpec
from fedveil.config.public_facts import divide, load_for, outline_for
from fedveil.config.site_settings import site_task
from fedveil.config.spec import Source, Spec, read_settings, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import objective_for
from fedveil.core.types import Population
from fedveil.data.dataset import Dataset
from fedveil.data.outlines import Outline
from fedveil.data.partitions import Partition
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.models.layer_counts import known_layers


@dataclass(frozen=True)
class Change:
    """A key of the spec that runs with another value than the one that was given, and why."""

    key: str
    before: object
    after: object
    reason: str

    def __str__(self) -> str:
        return f"{self.key} = {self.after:.6g} (it was {self.before}): {self.reason}"


@dataclass(frozen=True)
class Outlook:
    """The spec that would run, its noise solved for, and its context."""

    spec: Spec
    context: Context
    changes: tuple[Change, ...] = ()  # what was changed in the spec that was given

    def with_spec(self, spec: Spec) -> Outlook:
        """The same population and network under another spec."""
        known = self.context
        context = spec.context(
            known.population, known.layers, caveats=known.caveats, copies=known.copies, seeded=known.seeded
        )
        return replace(self, spec=spec, context=context)


def resolve_for(source: Source, overrides: Mapping[str, Any] | None, dataset: Dataset | None) -> Spec:
    """The spec on the data set that it names, or on records that were brought along, whose name it then carries."""
    if dataset is None:
        return resolve(source, overrides)
    task = None
    if dataset.sites:
        rows = len(dataset.input_shape) == 1 and not dataset.tokens
        task = site_task(len(dataset.sites), rows_of_numbers=rows)
    return resolve(source, {**(overrides or {}), "data.name": dataset.name}, task=task, dataset=dataset)


def files_of(source: Source, overrides: Mapping[str, Any] | None) -> DataSpec | None:
    """The files that a source names, before anything else of it is looked at; None where it names none."""
    data = read_settings(source, overrides).get("data")
    if not isinstance(data, Mapping) or not (data.get("sites") or data.get("table")):
        return None
    return resolve({"method": "fedavg", "data": data}).data


def outlook_for(source: Source, overrides: Mapping[str, Any] | None = None, dataset: Dataset | None = None) -> Outlook:
    """The outlook of a spec on the records that it names, or on records that were brought along."""
    if dataset is not None:
        spec, outline = resolve_for(source, overrides, dataset), dataset.outline
    else:
        files = files_of(source, overrides)
        read = None if files is None else load_for(files)
        spec = resolve(source, overrides, dataset=read)
        outline = outline_for(spec.data) if read is None else read.outline
    spec, partition = divided(spec, outline)
    return promised(spec, outline, partition, _layers(spec, outline))


def divided(spec: Spec, outline: Outline) -> tuple[Spec, Partition]:
    """Who holds what, and the spec with the number of clients, checked: the method must be able to run on them."""
    objective_for(outline.task, spec.objective)
    partition = divide(spec.data, outline)
    spec = replace(spec, data=replace(spec.data, clients=len(partition.clients)))
    spec.method.check(Population(partition.clients.sizes, partition.names))
    return spec, partition


def promised(spec: Spec, outline: Outline, partition: Partition, layers: int) -> Outlook:
    """The context of a spec on a population, its noise solved for where it asks for that."""
    _check_strict(spec)
    population = Population(partition.clients.sizes, partition.names)
    context = spec.context(population, layers, caveats=outline.caveats, copies=partition.max_copies)
    target = spec.privacy.budget
    outlook = Outlook(spec, context)
    if not spec.privacy.calibrate or target is None:
        return outlook
    solved = calibrate(context, target)
    (before,) = spec.method.mechanisms.values()
    reason = f"solved for ε = {target.epsilon:g} of {target.cell} at δ = {target.delta:g}"
    changed = replace(spec, method=solved.method, privacy=replace(spec.privacy, calibrate=False))
    change = Change(solved.key, before.sigma, solved.value, reason)
    return replace(outlook.with_spec(changed), changes=(change,))


def _layers(spec: Spec, outline: Outline) -> int:
    model = spec.model
    known = known_layers(model.name, outline.input_shape, model.options)
    if known is not None and not outline.tokens:
        return known
    from fedveil.core.parameters import Layout  # PyTorch is loaded where a network must be built to be counted
    from fedveil.models.registry import build

    network = build(model.name, outline.input_shape, outline.task.outputs, model.options, seed=0, tokens=outline.tokens)
    return Layout.of(network).group_count


def _check_strict(spec: Spec) -> None:
    clip = spec.method.adaptive_clip
    if spec.privacy.strict and clip is not None and isinstance(clip.bound, CohortMedian):
        raise FedveilError(
            "privacy.strict: the clipping bound is the median of the cohort's norms, read without noise, so nothing can"
            " be promised; use the bound of geyer-private (a noisy quantile) instead"
        )
