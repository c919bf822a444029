"""A plan at a site: whether the site agrees to it, what an answer will do, and the work itself.

The work is the client's function of the simulation (`engine/client.py:local_work`) on this site's records alone, with
its number in the plan. Every computation has its own key: noise that was drawn for one question is never drawn for
another, so no two answers can be subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fedveil.accounting.alone import PlanBounds, bounds_of, planned_answers
from fedveil.accounting.budget import stays_within
from fedveil.config.federation_plan import FederationPlan
from fedveil.core.declaration_records import receipt_record
from fedveil.core.objectives import objective_for
from fedveil.core.streams import Address, Streams
from fedveil.core.types import Declaration, Receipt
from fedveil.data.examples import Examples
from fedveil.data.record_form import form_toml
from fedveil.engine.batched import EVALUATION_SLICE, Engine, choose
from fedveil.engine.chance import as_declared
from fedveil.engine.client import Broadcast, Upload, local_work
from fedveil.engine.gradients import Gradients
from fedveil.engine.job import Job
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.sites import Sites
from fedveil.mechanisms.adaptive import LEAST_BOUND, MOST_BOUND
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.mechanisms.right_counts import counted_cells, noised_cells
from fedveil.parts.personal import Shared
from fedveil.runtimes.local import one_thread, precomputed
from fedveil.site.home import SiteHome
from fedveil.site.own_model import OwnModel
from fedveil.site.refusals import RefusalKind, Refused


@dataclass(frozen=True)
class PlannedWork:
    """One plan as this site takes part in it."""

    home: SiteHome
    plan: FederationPlan

    @cached_property
    def client(self) -> int:
        """This site's number in the plan."""
        return self.plan.population.names.index(self.home.name)

    @cached_property
    def answers(self) -> list[tuple[Declaration, ...]]:
        """What every answer of the plan will be charged."""
        every = planned_answers(self.plan.context, self.client) + [(one,) for one in self.planned_counts]
        return [self.charged(declared) for declared in every]

    def charged(self, declared: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        """What the ledger is told of an answer: of a seeded plan, no noise, since whoever knows the seed takes it off.

        Only a rehearsal answers such a plan. Its answers must not look private when it is no rehearsal any more.
        """
        if self.plan.spec.seed is None:
            return declared
        return tuple(replace(one, sum_std=0.0, row_std=0.0) for one in declared)

    @cached_property
    def planned(self) -> PlanBounds:
        """What the whole plan shows of this site, in the cell of its policy."""
        policy = self.home.policy
        return bounds_of(self.answers, len(self.home.records), policy.unit, policy.view)

    @cached_property
    def planned_counts(self) -> list[Declaration]:
        """What every measurement of the plan will be charged."""
        counts, named = self.plan.spec.evaluation.counts, self.plan.sites[self.client]
        if counts is None:
            return []
        return [counts.declare(named.held_out)] * counts.times(self.plan.spec.method.rounds)

    @property
    def price(self) -> float:
        """ε of the whole plan at the policy's δ for a plan."""
        return self.planned.epsilon(self.home.policy.plan.delta)

    def check(self) -> None:
        """Refuse what this site does not agree to, whatever it has spent so far."""
        self._check_names()
        policy, spec = self.home.policy, self.plan.spec
        self.plan.network()  # it is what the plan says, and can be trained privately
        if policy.rehearsal:
            return
        if spec.seed is not None:
            raise Refused(
                RefusalKind.SEEDED, "a seeded plan is not private: whoever knows the seed takes the noise off"
            )
        if not self.planned.bounds:
            reasons = "; ".join(dict.fromkeys(self.planned.reasons))
            text = f"the policy here asks for noise that protects {policy.cell}, and the plan has none: {reasons}"
            raise Refused(RefusalKind.UNPROTECTED, text)
        if not any(stays_within(parts, policy.plan) for _, parts in self.planned.bounds):
            text = (
                f"the plan costs ε = {self.price:.4g} of {policy.cell}; the policy here allows {policy.plan.epsilon:g}"
            )
            raise Refused(RefusalKind.OVER_BUDGET, f"{text} at δ = {policy.plan.delta:g}")

    def _check_names(self) -> None:
        mine = self.home.registration
        if mine.name not in self.plan.population.names:
            raise Refused(RefusalKind.WRONG_SITE, f"the plan does not name the site '{mine.name}'")
        named = self.plan.sites[self.client]
        if named.key != mine.key:
            raise Refused(RefusalKind.WRONG_SITE, f"the plan has another key for the site '{mine.name}'")
        if named.records != mine.records:
            text = f"the plan counts {named.records} records here; there are {mine.records}"
            raise Refused(RefusalKind.WRONG_RECORDS, text)
        if named.held_out != mine.held_out:
            text = f"the plan counts {named.held_out} records that are held out here; there are {mine.held_out}"
            raise Refused(RefusalKind.WRONG_RECORDS, text)
        if form_toml(self.home.schema) != self.plan.schema_text:
            raise Refused(RefusalKind.WRONG_RECORDS, "the plan's schema is not the schema of the records here")

    # One question

    def check_question(self, round: object, bound: object, tensors: dict[str, Tensor]) -> Broadcast:
        """What the coordinator asks, if the plan lets it."""
        method = self.plan.spec.method
        if type(round) is not int or not 0 <= round < method.rounds:
            raise Refused(RefusalKind.WRONG_QUESTION, f"the plan has rounds 0 to {method.rounds - 1}")
        moves = method.adaptive_clip is not None and method.adaptive_clip.adaptive is not None
        at_upload = method.upload is not None and method.upload.adaptive is not None
        if bound is not None and (not moves or type(bound) is not float or not LEAST_BOUND <= bound <= MOST_BOUND):
            raise Refused(RefusalKind.WRONG_QUESTION, "a clipping bound that the plan does not have, or not a bound")
        if at_upload and bound is None:
            raise Refused(RefusalKind.WRONG_QUESTION, "the clipping bound is missing")
        return Broadcast(round, self._model(tensors), bound if isinstance(bound, float) else None)

    def check_evaluation(self, round: object, tensors: dict[str, Tensor]) -> tuple[int, Tensor]:
        """The round after which a model is to be measured, and the model, if the plan lets that be asked."""
        rounds = self.plan.spec.method.rounds
        if self.plan.spec.evaluation.counts is None:
            raise Refused(RefusalKind.WRONG_QUESTION, "the plan does not measure at the sites")
        if type(round) is not int or not 0 <= round <= rounds:
            raise Refused(RefusalKind.WRONG_QUESTION, f"the plan has {rounds} rounds to measure after")
        return round, self._model(tensors)

    def _model(self, tensors: dict[str, Tensor]) -> Tensor:
        parameters = tensors.get("parameters")
        if tensors.keys() != {"parameters"} or parameters is None or parameters.dtype != torch.float32:
            raise Refused(RefusalKind.WRONG_QUESTION, "a question has the model's parameters, and nothing else")
        if tuple(parameters.shape) != (self.plan.parameters,) or not bool(torch.isfinite(parameters).all()):
            raise Refused(RefusalKind.WRONG_QUESTION, f"not {self.plan.parameters} finite parameters")
        return parameters

    def declared(self, broadcast: Broadcast) -> tuple[Declaration, ...]:
        """What an answer will do to the records here, and what the server promises to add to the sum of all."""
        return self.plan.spec.method.declare(
            broadcast.round, len(self.home.records), self.plan.layers, len(self.plan.sites), broadcast.bound
        )

    def upload(self, broadcast: Broadcast, given: Collection[int]) -> Upload:
        """The work of one round, with a key that nothing else is ever drawn from.

        `given` are the charges whose answers may have left: a model of the site's own counts from then on.
        """
        streams = self.streams()
        job, gradients = self._training
        own = self.own_model
        starts = None if own is None else own.start(broadcast.round, broadcast.parameters, given)
        with one_thread():
            (upload,) = local_work(
                job.method,
                broadcast,
                job.sites,
                [self.client],
                gradients=gradients,
                streams=streams,
                noise=NoiseSource(streams),
                memory=self._memory,
                starts=starts,
            )
        return upload

    @cached_property
    def own_model(self) -> OwnModel | None:
        """This site's own, for methods with personal models."""
        rule = self.plan.spec.method.personal
        return None if isinstance(rule, Shared) else OwnModel(rule, self.home.models(self.plan.hash))

    def streams(self) -> Streams:
        """A key that nothing was ever drawn from; that of the seed in a rehearsal of a seeded plan."""
        seed = self.plan.spec.seed
        return Streams.from_system() if seed is None else Streams.from_seed(seed)

    def cells(self, round: int, parameters: Tensor) -> tuple[Tensor, Receipt]:
        """What a model gets right of the records that are held out, in noised cells, and the receipt for the noise."""
        job, gradients = self._training
        (declared,) = set(self.planned_counts)
        with one_thread():
            slices = range(0, len(job.validation), EVALUATION_SLICE)
            outputs = torch.cat([Engine(job, gradients).evaluate(parameters, first).outputs for first in slices])
        clean = counted_cells(outputs, job.validation.labels, declared.sum_std)
        noised = noised_cells(clean, NoiseSource(self.streams()), Address(round, self.client))
        noise = (noised - clean) * grid_width(declared.sum_std)
        fits = as_declared(float(noise.square().mean()), declared.sum_std, len(noise))
        return noised, Receipt(round, self.client, declared, fits, len(noise))

    @cached_property
    def _memory(self) -> NoiseMemory:
        return NoiseMemory()

    @cached_property
    def _training(self) -> tuple[Job, Gradients]:
        records, spec = self.home.records, self.plan.spec
        objective = objective_for(self.plan.schema.task, spec.objective)
        sites = Sites.alone(records, self.client)
        held_out = self.home.held_out or Examples(records.inputs[:0], records.labels[:0])
        job = Job(spec.method, self.plan.network(), sites, held_out, Streams.from_system(), objective=objective)
        job = precomputed(job)
        return job, choose(job.model, job.sites.examples.inputs, job.objective)


def sendable(upload: Upload, *, cells: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What leaves the site: receipts, and the noised update or its `cells`. Diagnostics of raw records do not."""
    tensors = {"cells": upload.cells} if cells and upload.cells is not None else {"update": upload.update}
    tensors |= {} if upload.report is None else {"report": upload.report.to(torch.float64)}
    return {"receipts": [receipt_record(receipt) for receipt in upload.receipts]}, tensors


def left_of(epsilon: float, spent: float) -> float:
    """What is left of a budget; nothing where more was spent, or without bound."""
    return max(epsilon - spent, 0.0) if math.isfinite(spent) else 0.0
