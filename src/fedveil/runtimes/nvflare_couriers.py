"""What NVFlare runs of fedveil: components that carry bytes between its connections and the process that started it.

Neither knows what the bytes mean, holds a record, or imports PyTorch. They are named in a kit's `resources.json`, which
is the house's own: whatever runs at a site was installed there by the site.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from concurrent.futures import Future
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message

from fedveil.runtimes.frames import FrameLink
from fedveil.runtimes.nvflare_gate import CHANNEL, TOPIC, Passage, close_gate, coordinator_rule, site_rule
from fedveil.runtimes.startup_kit import LARGEST_MESSAGE

_FIRST_PATIENCE, _LONGEST_PATIENCE = 15.0, 240.0
"""Seconds for which one attempt is waited for. An answer may get lost with its connection; asking again is free."""
_PAUSE = 0.5
_MOST_OPEN = 8
"""Questions that wait at a site. A coordinator asks one, and after a restart perhaps another."""


class _Courier(FLComponent):  # type: ignore[misc]
    """The process that started this one says what to do, and its end is ours."""

    def __init__(self) -> None:
        super().__init__()
        self._link = FrameLink.inherited(LARGEST_MESSAGE)

    def _listen(self) -> None:
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            while True:
                self._obey(*self._link.receive())
        except EOFError:
            os._exit(0)  # nobody is left to work for

    def _obey(self, header: dict[str, Any], body: bytes) -> None:
        raise NotImplementedError

    def _tell(self, kind: str, body: bytes = b"", **header: Any) -> None:
        try:
            self._link.send({"kind": kind, **header}, body)
        except OSError:
            os._exit(0)


class SiteCourier(_Courier):
    """Hands questions to the site's own process and sends its answers back."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, list[Future[Message]]] = {}
        self._lock = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            cell = fl_ctx.get_engine().get_cell()
            rule = site_rule(cell.get_fqcn())
            close_gate(cell.core_cell, rule, on_refused=lambda reason: self._tell("refused", reason=reason))
            cell.register_request_cb(channel=CHANNEL, topic=TOPIC, cb=self._ask)
            self._listen()
            self._tell("begun")
        elif event_type == EventType.AFTER_CLIENT_REGISTER and fl_ctx.get_prop(FLContextKey.CLIENT_TOKEN):
            self._tell("ready")

    def _ask(self, message: Message) -> Future[Message]:
        """A question that is being worked on already is not worked on twice; whoever asks gets the answer."""
        question = bytes(message.payload)
        key = hashlib.sha256(question).hexdigest()
        answer: Future[Message] = Future()
        with self._lock:
            first = key not in self._open
            if first and len(self._open) >= _MOST_OPEN:
                answer.set_result(make_reply(ReturnCode.SERVICE_UNAVAILABLE, body=b""))
                return answer
            self._open.setdefault(key, []).append(answer)
        if first:
            self._tell("question", question, key=key)
        return answer

    def _obey(self, header: dict[str, Any], body: bytes) -> None:
        with self._lock:
            waiting = self._open.pop(header["key"], [])
        for answer in waiting:
            if header["kind"] == "answer":
                answer.set_result(Message({MessageHeaderKey.RETURN_CODE: ReturnCode.OK}, body))
            else:  # not why: the reason may tell of records
                answer.set_result(make_reply(ReturnCode.PROCESS_EXCEPTION, body=b""))


class CoordinatorCourier(_Courier):
    """Carries questions to the listed sites. Who is away is asked again when it is back, until the deadline."""

    def __init__(self, sites: list[str]) -> None:
        super().__init__()
        self._sites = frozenset(sites)
        self._present: set[str] = set()
        self._change = threading.Condition()
        self._abort: dict[int, dict[str, Signal]] = {}
        self._cell: Any = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            self._cell = fl_ctx.get_engine().get_cell()
            core = self._cell.core_cell
            close_gate(core, coordinator_rule(self._sites), on_passed=self._note_heartbeat)
            core.set_cell_disconnected_cb(lambda agent: self._note(agent.get_fqcn(), here=False))
        elif event_type == EventType.SYSTEM_START:
            self._listen()
            self._tell("ready")

    def _note_heartbeat(self, passage: Passage) -> None:
        if passage.heartbeat:
            self._note(passage.certified, here=True)

    def _note(self, site: str, *, here: bool) -> None:
        with self._change:
            if site not in self._sites or (site in self._present) == here:
                return
            self._present.symmetric_difference_update({site})
            self._change.notify_all()
        if not here:  # what it was asked is lost with its connection, and need not be waited for
            for attempts in list(self._abort.values()):
                if (signal := attempts.get(site)) is not None:
                    signal.trigger(True)
        self._tell("joined" if here else "left", site=site)

    def _obey(self, header: dict[str, Any], body: bytes) -> None:
        ask = header["ask"]
        if header["kind"] == "cancel":
            for signal in self._abort.pop(ask, {}).values():
                signal.trigger(True)
            return
        attempts = self._abort.setdefault(ask, {})
        arguments = (ask, header["site"], body, time.monotonic() + header["seconds"], attempts)
        threading.Thread(target=self._deliver, args=arguments, daemon=True).start()

    def _deliver(self, ask: int, site: str, question: bytes, end: float, attempts: dict[str, Signal]) -> None:
        patience = _FIRST_PATIENCE
        while (left := end - time.monotonic()) > 0 and ask in self._abort:
            abort = attempts[site] = Signal()
            if not self._await(site, min(left, 1.0)):
                continue
            reply = self._cell.send_request(
                channel=CHANNEL,
                topic=TOPIC,
                target=site,
                request=Message({}, question),
                timeout=min(left, patience),
                optional=True,
                abort_signal=abort,
            )
            code = reply.get_header(MessageHeaderKey.RETURN_CODE)
            if code == ReturnCode.OK and reply.payload is not None:
                self._tell("answer", bytes(reply.payload), ask=ask, site=site)
                return
            if code == ReturnCode.TIMEOUT and not abort.triggered:
                patience = min(2 * patience, _LONGEST_PATIENCE)
            else:
                time.sleep(_PAUSE)
        self._tell("missing", ask=ask, site=site)

    def _await(self, site: str, seconds: float) -> bool:
        with self._change:
            return self._change.wait_for(lambda: site in self._present, timeout=seconds)
