"""Large arrays of a pickle lie in memory that processes share."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from fedveil.runtimes.shared_arrays import LARGE, SharedArrays, load_shared


@pytest.fixture
def shared() -> Iterator[SharedArrays]:
    arrays = SharedArrays()
    yield arrays
    arrays.close()


def test_what_is_read_is_what_was_written(shared: SharedArrays) -> None:
    value = {
        "pictures": torch.arange(LARGE + 3, dtype=torch.int32).to(torch.uint8),
        "turned": torch.arange(2.0 * LARGE).reshape(4, -1).T,
        "rows": np.arange(LARGE, dtype=np.int32),
        "few": torch.arange(3),
        "word": "as it is",
        "network": nn.Linear(400, 100),
    }
    read = load_shared(io.BytesIO(shared.dumps(value)), shared.descriptor)
    for name in ("pictures", "turned", "few"):
        assert read[name].dtype == value[name].dtype
        assert torch.equal(read[name], value[name])
    assert np.array_equal(read["rows"], value["rows"])
    assert read["rows"].dtype == np.int32
    assert read["word"] == "as it is"
    assert torch.equal(read["network"].weight, value["network"].weight)
    assert read["network"].weight.requires_grad


def test_the_pickle_is_small_however_large_the_arrays_are(shared: SharedArrays) -> None:
    assert len(shared.dumps([torch.zeros(1000, 1000), np.zeros(10**6)])) < 1000


def test_an_array_that_stands_twice_is_read_as_one_value_each(shared: SharedArrays) -> None:
    one = torch.arange(LARGE)
    first, second = load_shared(io.BytesIO(shared.dumps((one, one))), shared.descriptor)
    assert torch.equal(first, second)


def test_writing_into_it_changes_nothing_for_the_others(shared: SharedArrays) -> None:
    content = shared.dumps(torch.zeros(LARGE))
    first, second = (load_shared(io.BytesIO(content), shared.descriptor) for _ in range(2))
    first += 1
    assert second.sum() == 0
    assert load_shared(io.BytesIO(content), shared.descriptor).sum() == 0


def test_another_process_maps_it_by_its_descriptor(shared: SharedArrays) -> None:
    content = shared.dumps(torch.arange(LARGE))
    code = (
        "import sys; from fedveil.runtimes.shared_arrays import load_shared;"
        "print(int(load_shared(sys.stdin.buffer, int(sys.argv[1])).sum()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(shared.descriptor)],
        input=content,
        pass_fds=(shared.descriptor,),
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert int(done.stdout) == LARGE * (LARGE - 1) // 2


def test_the_memory_has_no_name(shared: SharedArrays) -> None:
    shared.dumps(torch.zeros(LARGE))
    assert os.fstat(shared.descriptor).st_nlink == 0
