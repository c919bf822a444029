"""PyTorch's words on what it could do faster, or will do otherwise one day: nobody who trains can act on them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_inside = ContextVar("inside", default=False)


@contextmanager
def without_torch_warnings() -> Iterator[None]:
    """Without the warnings that PyTorch gives; those of a user's own code come through.

    It costs as much as a few small operations, but not inside of another such block: put one around a loop.
    """
    if _inside.get():
        yield
        return
    token = _inside.set(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"torch\b")
            warnings.filterwarnings("ignore", message="There is a performance drop because we have not yet implemented")
            yield
    finally:
        _inside.reset(token)
