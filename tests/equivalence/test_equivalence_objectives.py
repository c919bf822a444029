"""With every objective, the three ways to compute gradients give what autograd gives, one example at a time."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from fedveil.attacks.inversion.differentiable import differentiable
from fedveil.core.objectives import CROSS_ENTROPY, CrossEntropy, Huber, Objective, SquaredError
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.gradients import Batch, Gradients
from fedveil.engine.plain import Plain
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant
from fedveil.models.registry import build

CLIENTS, SLOTS, CLASSES = 5, 7, 3
OBJECTIVES = [CROSS_ENTROPY, CrossEntropy((0.25, 1.0, 7.5)), SquaredError(), Huber(), Huber(0.05)]
NETWORKS = {"mlp": ((6,), {"hidden": [5]}), "cnn": ((1, 12, 12), {"channels": [4, 4]})}


def named(objective: Objective) -> str:
    return str(objective)


def scene(objective: Objective, network: str = "mlp") -> tuple[nn.Module, torch.Tensor, Batch]:
    """A network, clients with parameters of their own, and a batch with padding that carries labels."""
    shape, options = NETWORKS[network]
    generator = torch.Generator().manual_seed(4)
    model = build(network, shape, 1 if objective.of_numbers else CLASSES, options, seed=2)
    inputs = torch.randn(CLIENTS, SLOTS, *shape, generator=generator)
    if objective.of_numbers:
        labels = torch.rand(CLIENTS, SLOTS, generator=generator) * 2 - 1
    else:
        labels = torch.randint(0, CLASSES, (CLIENTS, SLOTS), generator=generator)
    weights = torch.ones(CLIENTS, SLOTS)
    weights[1, 3:] = 0
    start = Plain(model).layout.vector(model)
    parameters = start + 0.3 * torch.randn(CLIENTS, len(start), generator=generator)
    return model, parameters, Batch(inputs, labels, weights)


def paths(model: nn.Module, objective: Objective, shape: tuple[int, ...]) -> dict[str, Gradients]:
    fused = Fused.build(model, shape, objective)
    assert fused is not None
    return {
        "general": General(model, objective),
        "fused": fused,
        "differentiable": differentiable(model, shape, objective),
    }


def close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return bool((first - second).abs().max() <= 1e-5 * second.abs().max())


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=named)
def test_rows_losses_and_clipped_sums_agree(objective: Objective, network: str) -> None:
    model, parameters, batch = scene(objective, network)
    reference = Plain(model, objective)
    rows = reference.rows(parameters, batch)
    bound = float(rows.norms.median())  # so that about half of them are clipped
    factors = partial(Clip(Constant(bound)).factors, bound=bound)
    sums = reference.sums(parameters, batch, factors)
    for name, path in paths(model, objective, tuple(batch.inputs.shape[2:])).items():
        mine = path.rows(parameters, batch)
        assert close(mine.rows, rows.rows), name
        assert close(mine.losses, rows.losses), name
        assert close(path.sums(parameters, batch, factors).total, sums.total), name
        plain = path.sums(parameters, batch, None)
        assert close(plain.total, rows.rows.sum(dim=1)), name
        assert close(plain.losses, rows.losses.sum(dim=1)), name


@pytest.mark.parametrize("objective", OBJECTIVES, ids=named)
def test_a_row_is_the_slope_of_the_objective(objective: Objective) -> None:
    model, parameters, batch = scene(objective)
    reference = Plain(model, objective)
    rows = reference.rows(parameters, batch).rows
    model = model.double()
    vector = reference.layout.vector(model).double()
    direction = torch.randn(len(vector), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values = []
    for step in (1e-5, -1e-5):
        moved = parameters[0].double() + step * direction
        outputs = torch.func.functional_call(model, reference.layout.split(moved), (batch.inputs[0].double(),))
        values.append(objective.losses(outputs, batch.labels[0]))
    slopes = (values[0] - values[1]) / 2e-5
    assert torch.allclose(rows[0].double() @ direction, slopes, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=named)
def test_the_fused_path_gives_a_client_the_same_bits_alone_and_among_others(objective: Objective) -> None:
    model, parameters, batch = scene(objective)
    fused = Fused.build(model, (6,), objective)
    assert fused is not None
    together = fused.sums(parameters, batch, lambda norms: norms.clamp(max=1)).total.clone()
    for client in range(CLIENTS):
        part = slice(client, client + 1)
        alone = Batch(batch.inputs[part], batch.labels[part], batch.weights[part])
        assert torch.equal(
            fused.sums(parameters[part], alone, lambda norms: norms.clamp(max=1)).total[0], together[client]
        )


@pytest.mark.parametrize("path", ["general", "fused"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=named)
def test_a_record_that_is_not_finite_counts_as_zero_with_every_objective(objective: Objective, path: str) -> None:
    model, parameters, batch = scene(objective)
    inputs = batch.inputs.clone()
    inputs[2, 1] = torch.nan
    gradients = paths(model, objective, (6,))[path]
    sums = gradients.sums(parameters, Batch(inputs, batch.labels, batch.weights), lambda norms: norms.clamp(max=1))
    assert sums.rejected.tolist() == [0, 0, 1, 0, 0]
    assert torch.isfinite(sums.total).all()
