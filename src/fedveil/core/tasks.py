"""What a model is to say of a record: which class it is of, or a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from fedveil.core.checks import FieldError


@dataclass(frozen=True)
class Classification:
    """One of several named classes. A label is the index of a class; a model has one output for each."""

    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.class_names, tuple | list):
            raise FieldError("class_names", f"must be a tuple of names, not {self.class_names!r}")
        if len(self.class_names) < 2:
            raise FieldError("class_names", f"needs at least 2 classes, not {len(self.class_names)}")

    @property
    def outputs(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True)
class Regression:
    """A number between `low` and `high`, which are public. A label is scaled to [−1, 1]; a model has one output.

    Errors are told in the number's own unit.
    """

    low: float
    high: float
    unit: str = ""

    def __post_init__(self) -> None:
        ends: dict[str, Any] = {"low": self.low, "high": self.high}
        for name, value in ends.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise FieldError(name, f"must be a finite number, not {value!r}")
        if not self.low < self.high:
            raise FieldError("high", f"must be above low = {self.low:g}, not {self.high:g}")

    @property
    def outputs(self) -> int:
        return 1

    @property
    def half_width(self) -> float:
        """What a difference of 1 between scaled labels stands for, in the number's unit."""
        return (self.high - self.low) / 2


Task = Classification | Regression


def task_record(task: Task) -> dict[str, Any]:
    """A task, ready for JSON."""
    if isinstance(task, Classification):
        return {"kind": "classification", "class_names": list(task.class_names)}
    return {"kind": "regression", "low": task.low, "high": task.high, "unit": task.unit}


def read_task(record: Any) -> Task | None:
    """The task that `task_record` wrote; None where it is missing (older runs) or not valid."""
    try:
        if record["kind"] == "classification":
            return Classification(tuple(map(str, record["class_names"])))
        return Regression(float(record["low"]), float(record["high"]), str(record["unit"]))
    except (KeyError, TypeError, ValueError, FieldError):
        return None
