"""Millions of draws a second and core: every way of drawing noise on a grid, beside noise in single precision.

`make bench` runs it. Ways take turns and repeat; medians and their spread are reported. Results go to
benchmarks/results/noise.json.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from fedveil.core.streams import Address, Purpose, Streams
from fedveil.native import twin
from fedveil.native.sampler import COMPILED, WAYS, Sampler

HERE = Path(__file__).parent
ROWS, SIZES, TURNS = 16, (4_130, 9_814, 100_000), 15


def added(sampler: Sampler, size: int) -> Callable[[], None]:
    """Round sums in single precision to the grid and add the noise, as a step does."""
    values = np.zeros((ROWS, size), np.float32)
    addresses = [Address(0, client) for client in range(ROWS)]
    return lambda: sampler.release(Purpose.EXAMPLE_NOISE, addresses, values, 2.0**-24)


def drawn(sampler: Sampler, size: int) -> Callable[[], None]:
    """The integers alone."""
    values = np.empty((ROWS, size), np.int32)
    addresses = [Address(0, client) for client in range(ROWS)]
    return lambda: sampler.release(Purpose.EXAMPLE_NOISE, addresses, values, 0.0)


def words_given(size: int) -> dict[str, Callable[[], None]]:
    """The main path alone, with random words at hand, in pieces that stay in a cache."""
    count = ROWS * size // 16 * 16
    words, out = np.empty(2 * count, np.uint32), np.empty(count, np.int32)
    Streams.from_seed(0).fill(Purpose.EXAMPLE_NOISE, Address(), words)
    piece, slow = 1 << 14, np.empty((1 << 14) + 1, np.uint32)
    parts = [(words[2 * a : 2 * (a + piece)], out[a : a + piece]) for a in range(0, count, piece)]

    def plain() -> None:
        from fedveil.native import kernels

        for some, target in parts:
            kernels.sample(some, target, slow)

    def numpy() -> None:
        for some, target in parts:
            twin.sample(some, target)

    return {**({"plain, words given": plain} if COMPILED else {}), "twin, words given": numpy}


def floating(size: int) -> Callable[[], None]:
    """What torch draws in single precision; it is neither exact nor unpredictable."""
    sums, noise = torch.zeros(ROWS, size), torch.empty(ROWS, size)

    def add() -> None:
        sums.add_(noise.normal_(), alpha=2.0)

    return add


def measure(work: dict[str, Callable[[], None]], draws: int) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(TURNS + 1):
        for name, one in work.items():
            begun = time.perf_counter()
            one()
            if turn:
                times[name].append(draws / (time.perf_counter() - begun) / 1e6)
    return {
        name: {
            "median": round(statistics.median(rates), 1),
            "low": round(statistics.quantiles(rates, n=10)[0], 1),
            "high": round(statistics.quantiles(rates, n=10)[-1], 1),
        }
        for name, rates in times.items()
    }


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for size in SIZES:
        samplers = {way: Sampler(Streams.from_seed(0), way) for way in WAYS}
        work = {f"{way}, draw": drawn(sampler, size) for way, sampler in samplers.items()}
        work |= {f"{way}, round and add": added(sampler, size) for way, sampler in samplers.items()}
        work |= words_given(size) | {"torch.normal_ in single precision": floating(size)}
        results[str(size)] = measure(work, ROWS * size)
        print(f"{ROWS} streams of {size} draws, millions a second (10 % … median … 90 % of {TURNS} turns)")
        for name, rates in results[str(size)].items():
            print(f"  {name:38} {rates['low']:8} … {rates['median']:8} … {rates['high']:8}")
    report = {"processor": platform.processor() or platform.machine(), "draws a second in millions": results}
    (HERE / "results/noise.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
