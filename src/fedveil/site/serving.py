"""What a site does with a question: bytes in, bytes out. A transport is handed `SiteServer.answer` and nothing else.

The order, each step on the disk before the next begins:

1. **charge**: the ledger has what the answer will cost. Without room in the policy there is no charge and no answer.
2. **compute**, with a key that was never used and is never written down.
3. **outbox**: the answer's bytes.
4. **answered**: the ledger has their digest.
5. **send**.

Why that is enough. Nothing leaves before step 4, so a question that was charged and not answered has shown nothing:
after a crash it is computed again, with another key, for the same charge. From step 4 on the bytes may have left; asked
the same question, the site sends the same bytes, which tell nobody anything new. If the outbox has lost them, another
computation is another release, and another charge. A question is known by all that its answer depends on (plan, round,
bound, model): with another model it is another question. Two answers never share noise.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from fedveil.accounting.count_rule import is_count
from fedveil.accounting.kept_grids import forget_grids
from fedveil.accounting.lifetime_filter import PaidAnswer
from fedveil.core.errors import FedveilError
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.runtimes.messages import (
    MessageUnreadable,
    Speaker,
    plan_named_in,
    read_message,
    tensor_bytes,
    write_message,
)
from fedveil.site.home import SiteHome
from fedveil.site.outbox import Outbox, answer_digest
from fedveil.site.questions import MeasuringQuestion, TrainingQuestion
from fedveil.site.refusals import RefusalKind, Refused
from fedveil.site.site_work import PlannedWork
from fedveil.site.spending import Spending, check_room

KEPT_ANSWERS = 8
"""So many of a plan's last answers stay in the outbox. A coordinator asks again for the round it is in."""

NO_PLAN = bytes(32)
FAILED = "something went wrong at this site; its own log says what"


class AnswerStep(StrEnum):
    """What is about to happen."""

    CHARGE = "charge"
    COMPUTE = "compute"
    OUTBOX = "outbox"
    ANSWERED = "answered"
    SEND = "send"


class SiteServer:
    """Use it as a context manager: it holds the ledger, so that there is one for each site.

    `before` is called before every step. `say` gets a line for whoever looks on when a question is refused or fails.
    """

    def __init__(
        self,
        home: SiteHome,
        before: Callable[[AnswerStep], None] = lambda step: None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._home, self._before, self._say = home, before, say
        self._lock = threading.Lock()
        self._outbox = Outbox(home.outbox)
        self._work: dict[str, PlannedWork] = {}
        self._spending = Spending(home)
        self._ledger: LifetimeLedger | None = None
        self._said = ""

    def __enter__(self) -> Self:
        self._ledger = self._home.opened_ledger()
        self._outbox.clear_parts()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ledger is not None:
            self._ledger.__exit__(kind, error, trace)
            self._ledger = None

    @property
    def ledger(self) -> LifetimeLedger:
        if self._ledger is None:
            raise FedveilError("the site is not serving; use it in a `with` block")
        return self._ledger

    def answer(self, question: bytes) -> bytes:
        """The answer to any bytes at all: what was asked for, or a refusal that says why."""
        plan = NO_PLAN
        with self._lock:
            try:
                plan = plan_named_in(question)
                return self._answer(plan, question)
            except Refused as refusal:
                self._note(f"refused ({refusal.kind}): {refusal.text}")
                return self._refusal(plan, refusal.kind, refusal.text)
            except MessageUnreadable as error:
                self._note(f"refused ({RefusalKind.UNREADABLE}): {error}")
                return self._refusal(plan, RefusalKind.UNREADABLE, f"the question can't be read: {error}")
            except Exception as error:
                # What went wrong may speak of records (a value, a path, a number): it stays in the site's own log.
                self._note(f"failed: {error}\n{traceback.format_exc()}")
                return self._refusal(plan, RefusalKind.FAILED, FAILED)

    def _answer(self, plan: bytes, question: bytes) -> bytes:
        work = self._approved(plan)
        message = read_message(question, Speaker.COORDINATOR, plan, bytes.fromhex(work.plan.coordinator))
        self._check_not_set_back(plan, message.header.get("mark"))
        kind = message.header.get("kind")
        if kind == "join":
            return self._joined(work)
        if kind == "train":
            broadcast = work.check_question(message.header.get("round"), message.header.get("bound"), message.tensors)
            return self._given(TrainingQuestion(work, broadcast))
        if kind == "evaluate":
            return self._given(
                MeasuringQuestion(work, *work.check_evaluation(message.header.get("round"), message.tensors))
            )
        text = "this version is asked to join, to train or to evaluate, and nothing else"
        raise Refused(RefusalKind.WRONG_QUESTION, text)

    def _approved(self, plan: bytes) -> PlannedWork:
        """The plan, if somebody here agreed to it, and the site still does: policies change."""
        hash = plan.hex()
        if not self.ledger.agrees_to(hash):
            text = f"nobody at this site has agreed to the plan {hash[:16]}; read it, then: fedveil site approve"
            raise Refused(RefusalKind.NOT_APPROVED, text)
        if hash not in self._work:
            work = PlannedWork(self._home, self._home.read_plan(hash))
            work.check()
            forget_grids()
            self._work[hash] = work
        return self._work[hash]

    def _joined(self, work: PlannedWork) -> bytes:
        header = {"kind": "joined", "price": _finite(work.price), "rehearsal": self._home.policy.rehearsal}
        return self._message(work.plan.digest, header)

    # One question

    def _given(self, asked: TrainingQuestion | MeasuringQuestion) -> bytes:
        work = asked.work
        paid = self.ledger.latest(asked.name)
        kept = None if paid is None else self._outbox.get(paid)
        if paid is not None and paid.answer is None and kept is not None and not self._is_own(work.plan.digest, kept):
            kept = None  # the disk has damaged it; nothing has left, so it may be computed once more
        if paid is None or (paid.answer is not None and kept is None):
            self._check_room(asked)
            forget_grids()
            self._before(AnswerStep.CHARGE)
            paid = self.ledger.charge(work.plan.hash, asked.name, asked.round, asked.charged)
            kept = None
        if kept is None:
            self._before(AnswerStep.COMPUTE)
            header, tensors = asked.answer(paid.number, self.ledger.given)
            header |= {"question": asked.name, "round": asked.round}
            kept = self._message(work.plan.digest, header, tensor_bytes(tensors), giving=paid.number)
            self._before(AnswerStep.OUTBOX)
            self._outbox.put(paid, kept)
        if paid.answer is None:
            self._before(AnswerStep.ANSWERED)
            self.ledger.answered(paid, answer_digest(kept), len(kept))
            self._forget_older(work.plan.hash)
        self._before(AnswerStep.SEND)
        return kept

    def _check_room(self, asked: TrainingQuestion | MeasuringQuestion) -> None:
        """Whether the plan has one more such answer, and the policy room for it: under this plan, and for ever."""
        plan = asked.work.plan.hash
        alike = [paid for paid in self.ledger.paid if paid.plan == plan and is_count(paid.declared) == asked.counts]
        asked.check_number([paid.round for paid in alike])
        following = PaidAnswer(plan, asked.work.planned, self._spending.own(asked.charged))
        check_room(self._home.policy, self._spending.answers(self.ledger), following)

    def _forget_older(self, plan: str) -> None:
        answered = [paid for paid in self.ledger.paid if paid.plan == plan and paid.answer is not None]
        for paid in answered[-2 * KEPT_ANSWERS : -KEPT_ANSWERS]:
            self._outbox.remove(paid)

    def _is_own(self, plan: bytes, answer: bytes) -> bool:
        """Whether these bytes are an answer as this site has signed it."""
        try:
            read_message(answer, Speaker.SITE, plan, self._home.signing_key.public.raw, len(answer))
        except MessageUnreadable:
            return False
        return True

    # The ledger's marks

    def _check_not_set_back(self, plan: bytes, mark: object) -> None:
        """Refuse to go on with a ledger that lacks what it held before: it would pay twice from the same purse.

        The coordinator shows the site what the site signed the last time. It can't make such a mark, only withhold it.
        """
        strangers = self._outbox.strangers(self.ledger.paid)
        if strangers:
            text = "this site has given answers that its ledger does not know; an older copy was put back"
            raise Refused(RefusalKind.LEDGER_SET_BACK, text)
        if mark is None:
            return
        try:
            shown = bytes.fromhex(str(mark))
        except ValueError:
            shown = b""
        signed, signature = shown[:-64], shown[-64:]
        if not self._home.signing_key.public.confirms(signature, _marked(plan, signed)):
            raise Refused(RefusalKind.WRONG_QUESTION, "the mark is not one that this site has signed")
        if not self.ledger.keeps(self._home.mark_key, signed.hex()):
            text = "the ledger here lacks entries that it had when it last answered; an older copy was put back"
            raise Refused(RefusalKind.LEDGER_SET_BACK, text)

    def _mark(self, plan: bytes, giving: int | None) -> str:
        mark = bytes.fromhex(self.ledger.mark(self._home.mark_key, giving))
        return (mark + self._home.signing_key.sign(_marked(plan, mark))).hex()

    # Messages

    def _message(self, plan: bytes, header: dict[str, Any], tensors: bytes = b"", giving: int | None = None) -> bytes:
        header = {**header, "site": self._home.name, "mark": self._mark(plan, giving)}
        return write_message(self._home.signing_key, Speaker.SITE, plan, header, tensors)

    def _refusal(self, plan: bytes, kind: RefusalKind, text: str) -> bytes:
        header = {"kind": "refused", "reason": str(kind), "text": text, "site": self._home.name}
        return write_message(self._home.signing_key, Speaker.SITE, plan, header)

    def _note(self, text: str) -> None:
        line = text.splitlines()[0]
        if line != self._said:  # the same question comes again and again
            self._said = line
            self._say(line)
        try:
            self._home.note(text)
        except FedveilError:
            return  # a full disk must not keep the refusal from being sent


def _marked(plan: bytes, mark: bytes) -> bytes:
    return b"fedveil mark\0" + plan + mark


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
