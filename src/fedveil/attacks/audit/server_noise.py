"""The noise that a server added, read off what it publishes by somebody who knows all uploads: the auditor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.attacks.audit.declared_noise import NEGLIGIBLE, ROUNDING_OF_STEPS
from fedveil.core.parameters import Layout
from fedveil.core.types import Population
from fedveil.engine.loop import Closed
from fedveil.engine.server_state import ServerState
from fedveil.engine.updates import clipped, update_norms
from fedveil.mechanisms.adaptive import Quantile
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.method import Method
from fedveil.parts.optimisers import Sgd


@dataclass(frozen=True)
class ServerNoise:
    """Noise of one round in units of its declared standard deviation: on the sum `[P]`, and on the reports of norms."""

    on_sum: Tensor
    on_report: float | None


def server_noise(
    method: Method,
    population: Population,
    layout: Layout,
    before: ServerState,
    closed: Closed,
    updates: Sequence[Tensor],
) -> ServerNoise | None:
    """The sum that a new model shows, less the clipped updates; None where the model does not show it.

    It does where the sum is added to the model as it is (SGD at the server), and single precision leaves enough of it.
    """
    declared = next((receipt.did for receipt in closed.receipts if receipt.did.place == "server"), None)
    if method.server is None or declared is None or declared.sum_std == 0 or len(updates) != len(closed.cohort):
        return None
    divisor = method.cohort.at(before.round, method.rounds).divisor(population.clients)
    scale = divisor / method.aggregate.rate.at(before.round, method.rounds)
    model = before.parameters.double()
    lost = ROUNDING_OF_STEPS * float(model.square().mean().sqrt()) * scale
    if not isinstance(method.aggregate.optimiser, Sgd) or lost > NEGLIGIBLE * declared.sum_std:
        return None
    mechanism = method.server.at(before.round, method.rounds, declared.bound)
    every = torch.stack(list(updates))
    norms = update_norms(every, layout)
    total = clipped(every, norms, mechanism, layout, population.clients, divisor).double().sum(dim=0)
    shown = (closed.state.parameters.double() - model) * scale
    report = _report_noise(mechanism, norms, before.bound, closed.state.bound, divisor)
    return ServerNoise(((shown - total) / declared.sum_std).float(), report)


def _report_noise(
    mechanism: GaussianRound, norms: Tensor, bound: float | None, following: float | None, divisor: float
) -> float | None:
    """By how much the next bound differs from the one that the norms alone would give; a quantile's bound shows it."""
    rule = mechanism.reporter
    if not isinstance(rule, Quantile) or bound is None or following is None:
        return None
    noisy = (rule.target - math.log(following / bound) / rule.rate - 0.5) * divisor
    reports = rule.report(torch.linalg.vector_norm(norms, dim=-1), mechanism.bound)
    return (noisy - float(reports.double().sum())) / rule.std
