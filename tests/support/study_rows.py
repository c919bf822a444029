"""Rows of a comparison or a sweep, as studies make them."""

from __future__ import annotations

from typing import Any


def row(**changes: Any) -> dict[str, Any]:
    return {
        "base": "fed-cdp",
        "runs": 3,
        "failed": 0,
        "seeded": True,
        "figure": "accuracy",
        "unit": "",
        "majority": None,
        "accuracy": 0.91234,
        "deviation": 0.01,
        "best": 0.95,
        "loss": 0.5,
        "rounds": 10,
        "seconds": 1.25,
        "rejected": 0,
        "rejected_updates": 0,
        "delta": 1e-5,
        "epsilon": {
            "record × server": {"promised": 1.80049, "spent": 1.08481, "relation": "add-or-remove"},
            "client × released": {"promised": "inf", "spent": "inf", "relation": None},
        },
        "void": False,
        "caveats": [],
        "claimed": [],
        **changes,
    }


def claim(view: str, epsilon: float) -> dict[str, Any]:
    return {"unit": "record", "view": view, "epsilon": epsilon}
