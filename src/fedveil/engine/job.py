"""What is to be trained, on which records, with which randomness: all that a process needs to do clients' work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import nn

from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.data.dataset import Examples
from fedveil.data.row_lists import RowLists
from fedveil.engine.sites import Sites
from fedveil.method import Method

NO_TESTS = RowLists.of(())


@dataclass(frozen=True)
class Job:
    """A training as the engine takes it; `tests[i]` are the validation records of client `i`'s own test set."""

    method: Method
    model: nn.Module
    sites: Sites
    validation: Examples
    streams: Streams
    tests: RowLists = NO_TESTS
    objective: Objective = CROSS_ENTROPY

    @cached_property
    def layout(self) -> Layout:
        """Where each layer of the model lives in a vector of its parameters."""
        return Layout.of(self.model)
