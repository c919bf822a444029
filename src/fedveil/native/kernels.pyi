from collections.abc import Callable
from typing import Any

VERSION: int

def configure(alias: Any, ends: Any, coefficients: Any, /) -> None: ...
def lanes() -> int: ...
def release(
    lanes: int,
    key: bytes,
    addresses: Any,
    values: Any,
    grid: float,
    decide: Callable[[int, int, bytes], int | None],
    /,
) -> None: ...
def sample(words: Any, out: Any, slow: Any, /) -> int: ...
def add(values: Any, noise: Any, grid: float, /) -> None: ...
