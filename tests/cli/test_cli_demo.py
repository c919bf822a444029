"""`demo`, on the records that come along."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cores import use_one_core

from fedveil.studies import showcase


def test_the_demo_shows_an_attack_that_noise_stops_and_two_trainings_and_ends_with_one_screen(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_one_core()
    monkeypatch.setattr(showcase, "_ITERATIONS", 8)
    code, out, err = call("demo", "--data", "cancer", "--rounds", "2", "--out", "shown")
    assert code == 0, err
    lines = out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    stolen = re.search(r"without protection +(\d+) of (\d+) records reconstructed", out)
    assert stolen is not None
    assert stolen[1] == stolen[2]
    assert re.search(r"Fed-CDP on each row +0 of \d+ records reconstructed", out)
    assert Path("shown/reconstruction.png").read_bytes().startswith(b"\x89PNG")
    assert Path("shown/report.html").is_file()
    assert "a small table of patients" in out
    assert "fedveil federation demo" in out
    kept = json.loads(Path("shown/private/result.json").read_text())
    assert f"accuracy {kept['accuracy']:.4f}" in out
    assert "round 2/2" in err


def test_an_interrupted_demo_says_what_is_kept(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(showcase, "attack", interrupted)
    code, _, err = call("demo", "--data", "cancer", "--out", "shown")
    assert code == 130
    assert "nothing was trained yet" in err


def test_whoever_stops_the_trainings_can_resume_them(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Impatient:
        def step(self, number: int, title: str) -> None: ...

        def progress(self, title: str, share: float) -> None: ...

        def round(self, name: str, update: object) -> None:
            raise KeyboardInterrupt

    prepared = showcase._prepared(showcase._BUNDLED, 3)
    with pytest.raises(KeyboardInterrupt):
        showcase._trained(prepared, tmp_path, Impatient())
    assert call("resume", str(tmp_path / "plain"), "--workers", "1")[0] == 0
