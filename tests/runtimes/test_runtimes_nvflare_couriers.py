from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.message import Message

from fedveil.runtimes.frames import FrameLink
from fedveil.runtimes.nvflare_couriers import SiteCourier
from fedveil.runtimes.startup_kit import LARGEST_MESSAGE


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SiteCourier, FrameLink]]:
    """A courier, and the link of the process that started it."""
    link, end = FrameLink.pair(LARGEST_MESSAGE)
    for name, value in FrameLink.handed_down(end).items():
        monkeypatch.setenv(name, value)
    courier = SiteCourier()
    end.detach()  # the courier has it now
    yield courier, link
    courier._link.close()
    link.close()


def code(reply: Message) -> str:
    return str(reply.get_header(MessageHeaderKey.RETURN_CODE))


def test_a_question_that_is_worked_on_is_not_worked_on_twice(site: tuple[SiteCourier, FrameLink]) -> None:
    courier, link = site
    answers = [courier._ask(Message({}, b"question")) for _ in range(3)]
    header, body = link.receive()
    assert (header["kind"], body) == ("question", b"question")
    assert not link.wait(0.2)
    courier._obey({"kind": "answer", "key": header["key"]}, b"answer")
    assert [answer.result(5).payload for answer in answers] == [b"answer"] * 3
    again = courier._ask(Message({}, b"question"))
    assert link.receive()[1] == b"question", "answered, it is a question again: the site's outbox knows it"
    assert not again.done()


def test_a_failure_is_told_and_its_reason_is_not(site: tuple[SiteCourier, FrameLink]) -> None:
    courier, link = site
    answer = courier._ask(Message({}, b"question"))
    header, _ = link.receive()
    courier._obey({"kind": "failed", "key": header["key"]}, b"")
    reply = answer.result(5)
    assert (code(reply), reply.payload, reply.get_header(MessageHeaderKey.ERROR)) == (
        ReturnCode.PROCESS_EXCEPTION,
        b"",
        None,
    )


def test_a_site_lets_few_questions_wait(site: tuple[SiteCourier, FrameLink]) -> None:
    courier, link = site
    waiting: list[bytes] = []
    reader = threading.Thread(target=lambda: waiting.extend(link.receive()[1] for _ in range(8)))
    reader.start()
    answers = [courier._ask(Message({}, b"%d" % number)) for number in range(12)]
    reader.join()
    assert sorted(waiting) == [b"%d" % number for number in range(8)]
    assert [code(answer.result(5)) for answer in answers[8:]] == [ReturnCode.SERVICE_UNAVAILABLE] * 4
    assert not any(answer.done() for answer in answers[:8])
