"""Differentially private federated learning: one definition of a method that is executed, accounted and attacked."""

from importlib.metadata import version

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, Examples, from_tensors, load
from fedveil.experiment.run import Result, resume, run
from fedveil.experiment.spec import Spec, resolve
from fedveil.method import Method

__version__ = version("fedveil")
__all__ = [
    "Dataset",
    "Examples",
    "FedveilError",
    "Method",
    "Result",
    "Spec",
    "from_tensors",
    "load",
    "resolve",
    "resume",
    "run",
]
