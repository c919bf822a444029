"""A site or a coordinator that dies by kill -9 again and again: `python -m mortal_party ROLE HOME DEATHS [forgetful]`.

This process holds no state: it forks the party, which is killed and forked anew, so that PyTorch is imported once. The
party dies before a step of a site's order, or when the coordinator has an answer (to a round: "heard"; of a model that
was measured: "counted") and has not used it yet; or some milliseconds later, wherever it is then. Each death is a line
of HOME.deaths (the step, and how it died), each answer that is about to leave a site a line of HOME.sent (question,
digest), on the disk first.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from federation_scene import answers_of

from fedveil.federation.coordinating import run_federation
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.runtimes.nvflare import FlareTransport, serve_site
from fedveil.runtimes.transport import Transport
from fedveil.site.home import SiteHome
from fedveil.site.outbox import Outbox
from fedveil.site.serving import AnswerStep, SiteServer

LONGEST_DELAY = 0.03
"""Seconds from the step to a death that comes later: a charge and its sync take a few milliseconds."""


COSTLY = {"update": "heard", "counts": "counted"}
"""Answers that show something of records, and how a coordinator's death is called that has just got one."""


class Strikes:
    """Dies with a chance at every step that it is told of, as long as deaths are left."""

    def __init__(self, home: Path, left: int, chance: float) -> None:
        self._log, self._left, self._chance = Path(f"{home}.deaths"), left, chance
        self._random = random.SystemRandom()

    def __call__(self, step: str) -> None:
        if self._left <= 0 or self._random.random() >= self._chance:
            return
        self._left = 0
        if self._random.random() < 0.5:
            self._die(f"{step} at once")
        delay = self._random.uniform(0, LONGEST_DELAY)
        threading.Timer(delay, self._die, [f"{step} later"]).start()

    def _die(self, where: str) -> None:
        append(self._log, where)
        os.kill(os.getpid(), signal.SIGKILL)


def append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def be_site(home: Path, strike: Strikes, forgetful: bool) -> None:
    """Serve until killed. A `forgetful` site neither looks into its outbox nor notes what it has answered, nor looks at
    the marks that would show it that."""
    if forgetful:
        Outbox.get = lambda self, paid: None  # type: ignore[method-assign]
        LifetimeLedger.answered = lambda *arguments: None  # type: ignore[method-assign]
        LifetimeLedger.keeps = lambda *arguments: True  # type: ignore[method-assign]

    def before(step: AnswerStep) -> None:
        strike(str(step))

    with SiteServer(SiteHome(home), before) as server:

        def answer(question: bytes) -> bytes:
            reply = server.answer(question)
            (header,) = answers_of([reply])
            if header["kind"] in COSTLY:
                append(Path(f"{home}.sent"), f"{header['question']} {hashlib.sha256(reply).hexdigest()}")
            return reply

        serve_site(home / "kit", answer, lambda line: print(line, flush=True))


class Heard:
    """A transport whose coordinator may die when it has an answer and has not used it yet."""

    def __init__(self, inner: Transport, strike: Strikes) -> None:
        self._inner, self._strike = inner, strike

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        for name, answer in self._inner.ask(questions, deadline):
            if (kind := answers_of([answer])[0]["kind"]) in COSTLY:
                self._strike(COSTLY[kind])
            yield name, answer


def be_coordinator(home: Path, strike: Strikes) -> None:
    coordinator = CoordinatorHome(home)
    with FlareTransport(coordinator.kit) as transport:
        run_federation(coordinator, Heard(transport, strike))


def party(role: str, home: Path, left: int, forgetful: bool) -> None:
    parent = os.getppid()

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()
    if role == "coordinator":
        be_coordinator(home, Strikes(home, left, chance=0.1))
    else:
        be_site(home, Strikes(home, left, chance=0.25), forgetful)


def main() -> None:
    role, home, deaths = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # a thread waits for the end of standard input; it holds nothing
    while True:
        left = deaths - len(lines_of(Path(f"{home}.deaths")))
        child = os.fork()
        if not child:
            party(role, home, left, "forgetful" in sys.argv[4:])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
