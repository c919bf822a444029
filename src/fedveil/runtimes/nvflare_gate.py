"""Which of NVFlare's messages are let in, decided from their headers, before a single byte of them is decoded.

NVFlare's own checks do not protect a site from its coordinator: whether a command needs a right is a flag that the
coordinator sets, and so is whether a job brings code, which switches the list of allowed classes off. So a site takes
questions on one channel, as bytes, and nothing else: no jobs, no commands, no diagnosis of the network. The coordinator
takes what sites need to sign in and to answer, from listed sites alone, and passes on nothing from one to another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import (
    CellChannel,
    CellChannelTopic,
    Encoding,
    MessageHeaderKey,
    MessagePropKey,
    MessageType,
    ReturnCode,
)
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    STREAM_ERROR_TOPIC,
    StreamHeaderKey,
)

CHANNEL, TOPIC = "fedveil", "ask"
SERVER = "server"
"""NVFlare's name for the coordinator's end of every connection."""

_log = logging.getLogger(__name__)
_NOTICES = {(STREAM_CHANNEL, STREAM_ACK_TOPIC), (STREAM_CHANNEL, STREAM_ERROR_TOPIC)}
_GOODBYE = (CellChannel.CELLNET, CellChannelTopic.Bye)
_SIGNING_IN = {
    (CellChannel.SERVER_MAIN, topic)
    for topic in (
        CellChannelTopic.Challenge,
        CellChannelTopic.Register,
        CellChannelTopic.HEART_BEAT,
        CellChannelTopic.Quit,
    )
}


@dataclass(frozen=True)
class Passage:
    """What is looked at: the message's headers, and who the connection it came by belongs to."""

    kind: str
    channel: str
    topic: str
    inner: tuple[str, str]
    """Channel and topic of what a stream carries."""
    encoding: str
    origin: str
    destination: str
    neighbour: str
    """The name that the other end of the connection gave itself."""
    certified: str
    """The name in its certificate; empty where NVFlare does not tell (at the end that calls)."""

    @staticmethod
    def of(message: Any) -> Passage:
        endpoint = message.get_prop(MessagePropKey.ENDPOINT)
        certified = message.get_prop(MessagePropKey.COMMON_NAME) or ""
        return Passage(
            kind=message.get_header(MessageHeaderKey.MSG_TYPE, ""),
            channel=message.get_header(MessageHeaderKey.CHANNEL, ""),
            topic=message.get_header(MessageHeaderKey.TOPIC, ""),
            inner=(
                message.get_header(StreamHeaderKey.CHANNEL, ""),
                message.get_header(StreamHeaderKey.TOPIC, ""),
            ),
            encoding=message.get_header(StreamHeaderKey.PAYLOAD_ENCODING, ""),
            origin=message.get_header(MessageHeaderKey.ORIGIN, ""),
            destination=message.get_header(MessageHeaderKey.DESTINATION, ""),
            neighbour=endpoint.name if endpoint else "",
            certified="" if certified == "N/A" else certified,
        )

    @property
    def address(self) -> tuple[str, str]:
        return self.channel, self.topic

    @property
    def heartbeat(self) -> bool:
        """A site has signed in and is waiting."""
        return self.address == (CellChannel.SERVER_MAIN, CellChannelTopic.HEART_BEAT)

    @property
    def streamed_bytes(self) -> bool:
        """A piece of a message of plain bytes, which nothing but its receiver looks into."""
        return self.address == (STREAM_CHANNEL, STREAM_DATA_TOPIC) and self.encoding == Encoding.BYTES


PassageRule = Callable[[Passage], str | None]
"""Why a message is refused, or nothing."""


def site_rule(me: str) -> PassageRule:
    """A site takes questions from the coordinator, and what belongs to sending its answers."""

    def refusal(passage: Passage) -> str | None:
        if passage.destination != me or passage.origin != SERVER or passage.neighbour != SERVER:
            return "a site talks to its coordinator alone"
        if passage.kind != MessageType.REQ:
            return None  # replies to signing in and to heartbeats
        if passage.streamed_bytes and passage.inner == (CHANNEL, TOPIC):
            return None
        if passage.address in _NOTICES or passage.address == _GOODBYE:
            return None
        return "a site answers fedveil's questions and takes no jobs, no commands and no code"

    return refusal


def coordinator_rule(sites: frozenset[str]) -> PassageRule:
    """The coordinator takes what listed sites need to sign in and to answer, and passes nothing on."""

    def refusal(passage: Passage) -> str | None:
        if passage.certified not in sites:
            return f"{passage.certified or 'a stranger'} is not a site of this federation"
        if not passage.certified == passage.neighbour == passage.origin:
            return f"{passage.certified} speaks for {passage.origin or 'nobody'}"
        if passage.destination != SERVER:
            return "the coordinator passes nothing on between sites"
        if passage.kind != MessageType.REQ:
            return None
        if passage.address in _SIGNING_IN or passage.address in _NOTICES or passage.address == _GOODBYE:
            return None
        if passage.streamed_bytes and passage.inner == (CellChannel.RETURN_ONLY, f"{CHANNEL}:{TOPIC}"):
            return None
        return "the coordinator takes answers and nothing else"

    return refusal


def close_gate(
    cell: CoreCell,
    rule: PassageRule,
    *,
    on_passed: Callable[[Passage], None] = lambda passage: None,
    on_refused: Callable[[str], None] = lambda reason: None,
) -> None:
    """From now on nothing passes but what the rule lets in. Whoever expects a reply is told why.

    `on_passed` sees every request that passed, `on_refused` why the other side refused one of ours.
    """

    def check_request(message: Message) -> Message | None:
        passage = Passage.of(message)
        refusal = _checked(passage)
        if refusal is None:
            on_passed(passage)
        return refusal

    def check_others(message: Message) -> Message | None:
        """Replies. A refused one is dropped."""
        passage = Passage.of(message)
        if message.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.UNAUTHENTICATED:
            on_refused(str(message.get_header(MessageHeaderKey.ERROR, "")))
        return None if passage.kind == MessageType.REQ else _checked(passage)

    def _checked(passage: Passage) -> Message | None:
        reason = rule(passage)
        if reason is None:
            return None
        _log.warning("refused %s@%s of %s: %s", passage.topic, passage.channel, passage.origin, reason)
        return make_reply(ReturnCode.UNAUTHENTICATED, error=f"refused: {reason}")

    cell.set_message_interceptor(check_request)
    cell.add_incoming_filter("*", "*", check_others)
