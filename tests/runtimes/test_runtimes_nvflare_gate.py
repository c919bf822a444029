from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageType
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC

from fedveil.runtimes.nvflare_gate import CHANNEL, SERVER, TOPIC, Passage, coordinator_rule, site_rule

QUESTION = Passage(
    kind=MessageType.REQ,
    channel=STREAM_CHANNEL,
    topic=STREAM_DATA_TOPIC,
    inner=(CHANNEL, TOPIC),
    encoding="bytes",
    origin=SERVER,
    destination="north",
    neighbour=SERVER,
    certified="",
)
ANSWER = replace(
    QUESTION,
    inner=(CellChannel.RETURN_ONLY, f"{CHANNEL}:{TOPIC}"),
    origin="north",
    destination=SERVER,
    neighbour="north",
    certified="north",
)
CHANNELS = [value for name, value in vars(CellChannel).items() if name.isupper()]
at_north, at_coordinator = site_rule("north"), coordinator_rule(frozenset({"north", "south"}))


def test_questions_and_answers_pass() -> None:
    assert at_north(QUESTION) is None
    assert at_coordinator(ANSWER) is None


def test_a_site_takes_nothing_on_any_channel_of_nvflare() -> None:
    topics = ["train.deploy", "train.start", "sys.shell", "stop", "get_task", "register", "*", ""]
    for channel, topic in product([*CHANNELS, "cellnet.net_agent", CHANNEL], topics):
        direct = replace(QUESTION, channel=channel, topic=topic, inner=("", ""))
        assert at_north(direct) is not None, (channel, topic)
        if (channel, topic) != (CHANNEL, TOPIC):
            assert at_north(replace(QUESTION, inner=(channel, topic))) is not None, (channel, topic)


@pytest.mark.parametrize("encoding", ["fobs", "none", ""])
def test_what_nvflare_would_decode_does_not_pass(encoding: str) -> None:
    assert at_north(replace(QUESTION, encoding=encoding)) is not None
    assert at_coordinator(replace(ANSWER, encoding=encoding)) is not None


@pytest.mark.parametrize(
    "change",
    [{"origin": "south"}, {"neighbour": "south"}, {"destination": "south"}, {"destination": "north.job"}],
    ids=str,
)
def test_a_site_takes_questions_of_its_coordinator_alone(change: dict[str, str]) -> None:
    assert at_north(replace(QUESTION, **change)) is not None
    assert at_north(replace(QUESTION, kind=MessageType.REPLY, **change)) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"certified": "south"},
        {"certified": "east", "origin": "east", "neighbour": "east"},
        {"certified": ""},
        {"origin": "south"},
        {"neighbour": "_admin_0"},
        {"destination": "south"},
        {"inner": (CHANNEL, TOPIC)},
        {"inner": (CellChannel.RETURN_ONLY, "hci_channel:x")},
    ],
    ids=str,
)
def test_the_coordinator_takes_a_sites_own_answers_alone(change: dict[str, str]) -> None:
    assert at_coordinator(replace(ANSWER, **change)) is not None


def test_sites_can_not_reach_each_other_by_replies() -> None:
    assert at_coordinator(replace(ANSWER, kind=MessageType.REPLY, destination="south")) is not None


def test_a_site_signs_in_and_can_not_log_in_as_an_administrator() -> None:
    for topic in ("challenge", "register", "heart_beat", "quit"):
        assert at_coordinator(replace(ANSWER, channel=CellChannel.SERVER_MAIN, topic=topic, inner=("", ""))) is None
    for channel in (CellChannel.HCI, CellChannel.SERVER_COMMAND, CellChannel.SERVER_PARENT_LISTENER):
        assert at_coordinator(replace(ANSWER, channel=channel, topic="login", inner=("", ""))) is not None
