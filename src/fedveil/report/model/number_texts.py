"""Numbers and settings as short texts, the same wherever they are printed. Nothing is rounded in our favour."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.core.rounding import rounded_up


def epsilon_text(value: float | str | None) -> str:
    """A certified ε: four digits, rounded up; a dash where there is none."""
    return "–" if value is None else rounded_up(float(value))


def left_text(left: float) -> str:
    """What is left of an ε: rounded down, so that it is never overstated."""
    return f"{math.floor(left * 1000) / 1000:g}"


def claimed_text(value: float | str | None) -> str:
    """A paper's ε: a claim is no certificate, so it is rounded as the paper rounds; a dash where there is none."""
    if value is None:
        return "–"
    return "∞" if math.isinf(float(value)) else f"{float(value):.4g}"


def delta_text(delta: float) -> str:
    """1e-5, not 1e-05."""
    mantissa, _, power = f"{delta:g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def deltas_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """δ of the rows of a table, or all that there are: then each row's ε is at its own."""
    return ", ".join(f"{delta:g}" for delta in dict.fromkeys(row["delta"] for row in rows))


def setting_text(value: Any) -> str:
    """A setting's value, short."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def duration_text(seconds: float) -> str:
    """A time, short: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
