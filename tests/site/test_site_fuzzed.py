"""A site that is sent anything at all never dies, answers nothing but its coordinator's questions, and never pays."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from byte_damage import damaged
from federation_scene import answers_of, make_scene
from killing import Asker

from fedveil.site.serving import SiteServer


def check_damaged_questions(tmp_path: Path, times: int) -> None:
    scene, chance = make_scene(tmp_path, sizes={"north": 60}), random.Random(times)
    with SiteServer(scene.sites["north"]) as server:
        asker = Asker(scene, "north", server.answer)
        good = [asker.question(round=round) for round in range(3)]
        for _ in range(times):
            kind, question = chance.randrange(3), chance.choice(good)
            if kind == 0:
                data = chance.randbytes(chance.randint(0, 400))
            elif kind == 1:
                data = damaged(question, chance)
            else:  # the beginning of one, the end of another
                cut = chance.randrange(len(question))
                data = question[:cut] + chance.choice(good)[cut:]
            if data in good:
                continue
            (header,) = answers_of([server.answer(data)])
            assert header["kind"] == "refused"
            assert header["reason"] in ("unreadable", "not-approved")
        assert server.ledger.paid == ()
        assert asker.ask().header["kind"] == "update"  # it is still there


def test_damaged_questions_get_no_answer_and_cost_nothing(tmp_path: Path) -> None:
    check_damaged_questions(tmp_path, 300)


@pytest.mark.slow
def test_ten_thousand_damaged_questions_get_no_answer_and_cost_nothing(tmp_path: Path) -> None:
    check_damaged_questions(tmp_path, 10_000)
