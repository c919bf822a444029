"""Modules that are loaded when something of them is used."""

from __future__ import annotations

import subprocess
import sys

import torch as real

from fedveil.core.deferred import torch


def test_what_is_asked_of_it_is_what_the_module_has() -> None:
    assert torch.Tensor is real.Tensor
    assert torch.nn.functional.relu is real.nn.functional.relu


def test_nothing_is_loaded_before_that() -> None:
    code = "import sys; from fedveil.core.deferred import torch; assert 'torch' not in sys.modules; torch.zeros(1)"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' in sys.modules"], check=True, timeout=120)
