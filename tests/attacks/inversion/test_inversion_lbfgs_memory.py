"""The descent from what is remembered is that of the two-loop recursion."""

from __future__ import annotations

import torch
from torch import Tensor

from fedveil.attacks.inversion.lbfgs_memory import Memory


def two_loops(pairs: list[tuple[Tensor, Tensor]], slope: Tensor) -> Tensor:
    """As in the books, newest pair last."""
    direction, weights = slope.clone(), []
    for s, y in reversed(pairs):
        weights.append((s @ direction) / (s @ y))
        direction -= weights[-1] * y
    s, y = pairs[-1]
    direction *= (s @ y) / (y @ y)
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        direction += s * (weight - (y @ direction) / (s @ y))
    return -direction


def test_the_descent_is_that_of_the_two_loop_recursion_before_and_after_old_pairs_leave() -> None:
    generator = torch.Generator().manual_seed(0)
    attacks, history, size = 3, 4, 9
    curved = torch.diag(torch.logspace(0, 1, size))
    memory, seen = Memory.empty(attacks, history, size), [[] for _ in range(attacks)]  # type: ignore[var-annotated]
    for turn in range(11):
        step = torch.randn(attacks, size, generator=generator)
        change, slopes = step @ curved, torch.randn(attacks, size, generator=generator)
        taking = torch.tensor([True, turn % 2 == 0, turn != 3])  # not all go at the same pace
        memory.remember(taking, step, change, (step * change).sum(dim=1), slopes)
        for attack in taking.nonzero().flatten().tolist():
            seen[attack].append((step[attack].double(), change[attack].double()))
        found = memory.descent(slopes)
        for attack in range(attacks):
            expected = two_loops(seen[attack][-history:], slopes[attack].double())
            assert torch.allclose(found[attack].double(), expected, rtol=1e-4, atol=1e-5)


def test_who_forgets_begins_again_and_the_others_do_not() -> None:
    generator = torch.Generator().manual_seed(0)
    memory = Memory.empty(2, 3, 5)
    for _ in range(4):
        step, slopes = torch.randn(2, 5, generator=generator), torch.randn(2, 5, generator=generator)
        memory.remember(torch.tensor([True, True]), step, 2 * step, 2 * step.square().sum(dim=1), slopes)
    before = memory.descent(slopes)
    memory.forget(torch.tensor([True, False]))
    assert memory.written.tolist() == [0, 4]
    assert torch.equal(memory.descent(slopes)[0], -slopes[0])
    assert torch.equal(memory.descent(slopes)[1], before[1])
