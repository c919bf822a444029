"""Differentially private federated learning: one definition of a method that is executed, accounted and attacked."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from fedveil.config.spec import Spec, resolve
    from fedveil.core.errors import FedveilError
    from fedveil.core.tasks import Classification, Regression
    from fedveil.data.dataset import Dataset, Examples, from_tensors, load, scaled_labels
    from fedveil.data.own_sites import from_sites
    from fedveil.data.schema_file import read_schema
    from fedveil.method import Method
    from fedveil.runs.account import account
    from fedveil.runs.result import Result
    from fedveil.runs.run import resume, run
    from fedveil.studies.attack import attack
    from fedveil.studies.audit import audit
    from fedveil.studies.predict import load_model, predict

# On some processors a matrix product rounds by where its result lies in memory, so a client's bits would depend on its
# place among others. The library looks at this when it first multiplies; measured, it costs no time.
os.environ.setdefault("MKL_CBWR", "AUTO")

__all__ = [
    "Classification",
    "Dataset",
    "Examples",
    "FedveilError",
    "Method",
    "Regression",
    "Result",
    "Spec",
    "account",
    "attack",
    "audit",
    "from_sites",
    "from_tensors",
    "load",
    "load_model",
    "predict",
    "read_schema",
    "resolve",
    "resume",
    "run",
    "scaled_labels",
]

_HOMES = {
    "core.errors": ("FedveilError",),
    "core.tasks": ("Classification", "Regression"),
    "data.dataset": ("Dataset", "Examples", "from_tensors", "load", "scaled_labels"),
    "data.own_sites": ("from_sites",),
    "studies.attack": ("attack",),
    "studies.audit": ("audit",),
    "studies.predict": ("load_model", "predict"),
    "data.schema_file": ("read_schema",),
    "runs.account": ("account",),
    "runs.result": ("Result",),
    "runs.run": ("resume", "run"),
    "config.spec": ("Spec", "resolve"),
    "method": ("Method",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Names are fetched when they are used: PyTorch takes longer to load than most commands take to answer."""
    if name == "__version__":
        from importlib.metadata import version

        return version("fedveil")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedveil' has no attribute {name!r}")
    return getattr(import_module(f"fedveil.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
