"""An attack on floating-point noise: which of two sums could have given these very numbers?

`sum + std·z` in single precision reaches a different set of values for each sum. The attacker knows both candidates,
the noise's standard deviation and the upload, and counts for how many coordinates a candidate could have given the
value that was sent. On a grid every value is reachable from every sum, so the attacker is left with a coin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Streams
from fedveil.core.types import Population, Unit
from fedveil.engine.client import Statistics, Upload
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.server import open_tally, sanitise_sum
from fedveil.engine.server_state import ServerState, initial_state
from fedveil.engine.updates import sanitised
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.method import Method
from fedveil.parts.cohorts import FixedSize

SIZE, CLIP, SIGMA, TRIALS = 4130, 0.05, 1.0, 400
STD = SIGMA * CLIP
Sent = Callable[[Tensor, int], Tensor]


def reachable(released: np.ndarray, candidate: np.ndarray, std: float) -> int:
    """For how many coordinates some single-precision z gives candidate + std·z = released, as `add_` rounds it.

    Grid noise is looked at in the same way, and by the grid itself: whether the difference is a whole number of cells.
    """
    scaled = (released.astype(np.float64) - candidate) / std
    guess = scaled.astype(np.float32)
    reached = np.zeros(len(released), dtype=bool)
    for step in range(-2, 3):
        z = guess.copy()
        for _ in range(abs(step)):
            z = np.nextafter(z, np.float32(np.inf * np.sign(step)))
        reached |= (candidate + np.float32(std) * z).astype(np.float32) == released
        reached |= (candidate.astype(np.float64) + std * z.astype(np.float64)).astype(np.float32) == released
    return int(reached.sum())


def on_grid(released: np.ndarray, candidate: np.ndarray, std: float) -> int:
    cells = (released.astype(np.float64) - candidate) / grid_width(std)
    return int((np.abs(cells - np.rint(cells)) < 0.05).sum())


def candidates(kind: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    one, two = (torch.randn(SIZE, generator=generator) for _ in range(2))
    unit = one / one.norm()
    if kind == "nothing and a thousandth of the clip":
        return torch.zeros(SIZE), unit * CLIP / 1000
    return unit * CLIP / 2, two / two.norm() * CLIP / 2


def float_noise(update: Tensor, seed: int) -> Tensor:
    """What was done before there was a grid."""
    z = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))
    return update.clone().add_(z, alpha=STD)


def example(update: Tensor, seed: int) -> Tensor:
    mechanism = Gaussian(clip=Clip(CLIP), sigma=SIGMA).at(0, 1)
    sums = update.clone().unsqueeze(0)
    mechanism.add_to_sums(sums, rows=1, source=NoiseSource(Streams.from_seed(seed)), addresses=[Address(0, 1, 2)])
    return sums[0]


def layout() -> Layout:
    return Layout.of(torch.nn.Linear(SIZE, 1, bias=False))


def upload(update: Tensor, seed: int) -> Tensor:
    method = Method(upload=Gaussian(clip=Clip(CLIP), sigma=SIGMA, unit=Unit.CLIENT))
    streams = Streams.from_seed(seed)
    return sanitised(
        method, 0, None, [4], update.unsqueeze(0), layout(), streams, NoiseSource(streams), NoiseMemory()
    ).updates[0]


def server(update: Tensor, seed: int) -> Tensor:
    method = Method(cohort=FixedSize(1), server=Gaussian(clip=Clip(CLIP), sigma=SIGMA, unit=Unit.CLIENT))
    state: ServerState = initial_state(method, torch.zeros(SIZE))
    tally = open_tally(method, state, layout(), Population((5,)))
    tally.add(Upload(0, update, (), Statistics(0.0, (0.0,), 0)))
    sanitise_sum(method, state, tally, [0], NoiseSource(Streams.from_seed(seed)), NoiseMemory())
    return tally.total.float()


def share_of_right_guesses(send: Sent, kind: str, test: Callable[..., int], trials: int) -> float:
    pair = candidates(kind)
    generator, right = np.random.default_rng(1), 0.0
    for trial in range(trials):
        truth = int(generator.integers(2))
        released = send(pair[truth], trial).numpy()
        scores = [test(released, one.numpy(), STD) for one in pair]
        right += 0.5 if scores[0] == scores[1] else float(scores[truth] > scores[1 - truth])
    return right / trials


KINDS = ["nothing and a thousandth of the clip", "two known updates"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_attack_works_on_noise_in_single_precision(kind: str) -> None:
    assert share_of_right_guesses(float_noise, kind, reachable, 100) == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", [reachable, on_grid])
@pytest.mark.parametrize("send", [example, upload, server])
def test_on_a_grid_the_attack_is_left_with_a_coin(send: Sent, test: Callable[..., int], kind: str) -> None:
    """Within four standard deviations of one half."""
    trials = TRIALS if test is reachable else 200
    assert abs(share_of_right_guesses(send, kind, test, trials) - 0.5) < 4 * 0.5 / np.sqrt(trials)


def test_exact_integers_of_uploads_give_nothing_away_either() -> None:
    method = Method(upload=Gaussian(clip=Clip(CLIP), sigma=SIGMA, unit=Unit.CLIENT))
    for update in candidates(KINDS[1]):
        streams = Streams.from_seed(1)
        cells = sanitised(
            method, 0, None, [4], update.unsqueeze(0), layout(), streams, NoiseSource(streams), NoiseMemory()
        ).cells
        assert cells is not None
        assert torch.equal(cells, cells.round())
