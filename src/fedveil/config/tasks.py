"""The papers' settings for each data set (Fed-CDP, Table I), with the network and learning rate we train them with."""

from __future__ import annotations

from typing import Any

WIDE = {"channels": [32, 64], "kernel": 5, "padding": 2, "strides": [2, 2], "pools": [1, 1]}
"""Two convolutions and one dense layer, as the paper says, with strides instead of pooling."""

POOLED = {"channels": [24, 48], "kernel": 3, "padding": 1, "strides": [1, 1], "pools": [2, 2], "centre": True}
"""The same with pooling, on centred inputs: it overfits less."""

TASKS: dict[str, dict[str, Any]] = {
    "mnist": {
        "data": {"clients": 1000, "records": 500, "partition": {"kind": "shards", "per_client": 2}},
        "model": {"name": "cnn"},
        "cohort": {"kind": "fixed", "size": 100},
        "batch": {"kind": "partition", "size": 5},
        "local": {"steps": 100, "rate": 0.1},
        "stop": {"rounds": 100},
    },
    "cifar10": {
        "data": {"clients": 100, "records": 400, "partition": {"kind": "shards", "per_client": 2}},
        "model": {"name": "cnn", "options": POOLED},
        "cohort": {"kind": "fixed", "size": 50},
        "batch": {"kind": "partition", "size": 4},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 100},
    },
    "lfw": {
        "data": {"clients": 100, "records": 300, "partition": {"kind": "shards", "per_client": 10}},
        "model": {"name": "cnn", "options": WIDE},
        "cohort": {"kind": "fixed", "size": 50},
        "batch": {"kind": "partition", "size": 3},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 60},
    },
    "adult": {
        "data": {"clients": 1000, "records": 300, "partition": {"kind": "random"}},
        "model": {"name": "mlp", "options": {"hidden": [64, 32]}},
        "cohort": {"kind": "fixed", "size": 100},
        "batch": {"kind": "partition", "size": 3},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 10},
    },
    "cancer": {
        "data": {"clients": 100, "records": 400, "partition": {"kind": "copy"}},
        "model": {"name": "mlp", "options": {"hidden": [64, 32]}},
        "cohort": {"kind": "fixed", "size": 10},
        "batch": {"kind": "partition", "size": 4},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 3},
    },
}
