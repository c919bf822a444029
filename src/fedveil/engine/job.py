"""What is to be trained, on which records, with which randomness: all that a process needs to do clients' work."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
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

    def on(self, device: torch.device) -> Job:
        """The same training, its records and its network on a device. Who holds which records stays at the host."""
        if device.type == "cpu":
            return self
        sites = replace(self.sites, examples=self.sites.examples.on(device))
        model = copy.deepcopy(self.model).to(device)
        return replace(self, model=model, sites=sites, validation=self.validation.on(device))

    @cached_property
    def layout(self) -> Layout:
        """Where each layer of the model lives in a vector of its parameters."""
        return Layout.of(self.model)
