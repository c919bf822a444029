"""Differentially private federated learning: one definition of a method that is executed, accounted and attacked."""

from importlib.metadata import version

__version__ = version("fedveil")
