"""L-BFGS over many attacks: each goes its own way, none disturbs another."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from fedveil.attacks.inversion.adam import AdamDescent
from fedveil.attacks.inversion.lbfgs import Lbfgs
from fedveil.attacks.inversion.minimise import UPDATES


def valley(points: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """Rosenbrock's function."""
    leaf = points.detach().requires_grad_(True)
    values = (100 * (leaf[:, 1:] - leaf[:, :-1].square()).square() + (1 - leaf[:, :-1]).square()).sum(dim=1)
    (slopes,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), slopes


def bowls(points: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """Each attack has its own minimum: all coordinates equal to its number. Attack 0 begins close to it."""
    scale = torch.logspace(0, 3, points.shape[1])
    error = points - members[:, None]
    return (scale * error.square()).sum(dim=1), 2 * scale * error


def starts(attacks: int, size: int) -> Tensor:
    return torch.randn(attacks, size, generator=torch.Generator().manual_seed(0))


def test_every_attack_finds_its_own_minimum() -> None:
    found = Lbfgs(history=10).minimise(bowls, starts(7, 12), 20)
    assert torch.allclose(found.points, torch.arange(7.0)[:, None].expand(-1, 12), atol=1e-3)


def test_it_needs_about_as_many_evaluations_as_scipy_on_a_curved_valley() -> None:
    start = torch.full((1, 6), -0.5)
    found = Lbfgs(history=10, goal=1e-8).minimise(valley, start, 50)
    assert found.values[0] < 1e-6
    peer = minimize(
        lambda x: [
            float(part[0]) if part.ndim == 1 else part[0].double().numpy()
            for part in valley(torch.tensor(x)[None], start)
        ],
        start[0].double().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 10},
    )
    assert found.evaluations < 1.5 * peer.nfev


def test_an_attack_goes_the_same_way_alone_and_among_others() -> None:
    start = starts(6, 8)
    together = Lbfgs().minimise(valley, start, 3)
    for attack in (0, 3, 5):
        alone = Lbfgs().minimise(valley, start[attack : attack + 1], 3)
        assert torch.allclose(alone.points[0], together.points[attack], atol=1e-3)


def test_attacks_that_are_done_are_no_longer_evaluated() -> None:
    start = torch.zeros(10, 12)
    start[1:] += torch.arange(1.0, 10)[:, None] + 1e-7
    asked: list[int] = []

    def counted(points: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(len(members))
        return bowls(points + (members == 9)[:, None] * 3.0, members)

    Lbfgs(goal=1e-6).minimise(counted, start, 20)
    assert asked[0] == 10
    assert asked[-1] == 1


def test_no_attack_makes_more_updates_than_it_is_given() -> None:
    found = Lbfgs(goal=0.0).minimise(valley, starts(5, 10), 1)
    assert int(found.updates.max()) == UPDATES
    assert found.iterations.tolist() == [1] * 5


def test_values_never_rise() -> None:
    seen: dict[int, list[float]] = {}

    def watch(members: Tensor, updates: Tensor, points: Tensor) -> None:
        for member, value in zip(members.tolist(), valley(points, members)[0].tolist(), strict=True):
            seen.setdefault(member, []).append(value)

    Lbfgs().minimise(valley, starts(4, 10), 5, watch)
    assert all(values == sorted(values, reverse=True) for values in seen.values())


@pytest.mark.parametrize("optimiser", [Lbfgs(), AdamDescent()])
def test_an_attack_that_is_not_finite_ends_and_leaves_the_others_alone(optimiser: Lbfgs | AdamDescent) -> None:
    def broken(points: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = bowls(points, members)
        return values.where(members != 1, float("nan")), slopes

    found = optimiser.minimise(broken, starts(3, 4), 30)
    assert torch.allclose(found.points[2], torch.full((4,), 2.0), atol=0.05)
    assert found.updates[1] == 0


def test_adam_keeps_the_best_point_it_saw() -> None:
    found = AdamDescent(rate=0.5, signed=False).minimise(bowls, starts(3, 4), 20)
    assert torch.allclose(bowls(found.points, torch.arange(3))[0], found.values)
    assert (found.values < 1e-2).all()
