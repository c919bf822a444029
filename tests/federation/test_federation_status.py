"""What a coordinator's status says while nothing was published yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from federation_scene import make_scene

from fedveil.core.errors import FedveilError
from fedveil.federation.federation_status import federation_status, federation_summary


def test_a_coordinator_that_waits_for_its_sites_is_running(tmp_path: Path) -> None:
    home = make_scene(tmp_path, sizes={"north": 60}).coordinator
    assert federation_summary(federation_status(home)).state[1].startswith("not running")
    with home.held():
        assert federation_summary(federation_status(home)).state == ("note", "running")
        with pytest.raises(FedveilError, match="another process is working on this federation"), home.held():
            pass
    assert not home.is_held
