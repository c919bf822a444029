"""Which faults there are: each manner strikes certain kinds of calls."""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from shim_control import Action, Call, Fault, Kind

ALL = frozenset(Kind)
CHANGING = ALL - {Kind.OPEN}
NEEDS_SPACE = frozenset({Kind.CREATE, Kind.WRITE, Kind.MKDIR, Kind.RENAME})
NAMES = frozenset({Kind.CREATE, Kind.OPEN, Kind.RENAME, Kind.UNLINK, Kind.MKDIR})
WRITES, SYNCS = frozenset({Kind.WRITE}), frozenset({Kind.SYNC})

Loss = Literal["", "unsynced", "data", "names", "some"]
"""What the power takes with it when it fails after the process is gone."""


@dataclass(frozen=True)
class Manner:
    """What happens at the n-th call of a kind."""

    kinds: frozenset[Kind]
    action: Action
    error: int = 0
    reach: frozenset[Kind] = frozenset()
    loss: Loss = ""

    @property
    def kills(self) -> bool:
        return self.action in (Action.DIE_BEFORE, Action.DIE_AFTER, Action.TEAR_DIE)

    @property
    def harmless(self) -> bool:
        """Whether a program has to go on as if nothing had happened."""
        return self.action is Action.SHORT


MANNERS = {
    "no space once": Manner(NEEDS_SPACE, Action.FAIL, errno.ENOSPC),
    "no space any more": Manner(NEEDS_SPACE, Action.FAIL_ON, errno.ENOSPC, NEEDS_SPACE),
    "input/output error once": Manner(ALL, Action.FAIL, errno.EIO),
    "errors from then on": Manner(ALL, Action.FAIL_ON, errno.EIO, ALL),
    "read-only from then on": Manner(CHANGING - {Kind.SYNC}, Action.FAIL_ON, errno.EROFS, CHANGING - {Kind.SYNC}),
    "not allowed": Manner(NAMES, Action.FAIL, errno.EACCES),
    "half written, rest later": Manner(WRITES, Action.SHORT),
    "half written, then no space": Manner(WRITES, Action.TEAR_FAIL, errno.ENOSPC),
    "half written, then killed": Manner(WRITES, Action.TEAR_DIE),
    "killed before": Manner(CHANGING, Action.DIE_BEFORE),
    "killed after": Manner(CHANGING, Action.DIE_AFTER),
    "power lost: all that is not synced": Manner(CHANGING, Action.DIE_BEFORE, loss="unsynced"),
    "power lost: unsynced data": Manner(CHANGING, Action.DIE_BEFORE, loss="data"),
    "power lost: unsynced names": Manner(CHANGING, Action.DIE_BEFORE, loss="names"),
    "power lost: some of it": Manner(CHANGING, Action.DIE_BEFORE, loss="some"),
    "sync failed, then power lost": Manner(SYNCS, Action.FAIL, errno.EIO, loss="unsynced"),
}

Stage = Literal["run", "resume", "account"]
"""The command that is struck: the run itself; or, after a run that was killed in the midst of a commit, the next."""


@dataclass(frozen=True)
class Case:
    family: str
    stage: Stage
    kind: Kind
    nth: int
    manner: str

    def __str__(self) -> str:
        return f"{self.family}: {self.stage}: {self.manner}: {self.kind.name.lower()} {self.nth}"

    @property
    def fault(self) -> Fault:
        manner = MANNERS[self.manner]
        return Fault(self.kind, self.nth, manner.action, manner.error, manner.reach)


def counted(calls: Iterable[Call]) -> Counter[Kind]:
    """How many calls of each kind came."""
    return Counter(call.kind for call in calls if call.what == "k")


def every_case(family: str, stage: Stage, counts: Counter[Kind]) -> list[Case]:
    return [
        Case(family, stage, kind, nth, name)
        for name, manner in MANNERS.items()
        for kind in sorted(manner.kinds)
        for nth in range(1, counts[kind] + 1)
    ]


def chosen(cases: Sequence[Case], most: int) -> list[Case]:
    """So many of them, every stage, manner and kind in turn, and any call of it; always the same."""
    groups: dict[tuple[Stage, str, Kind], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.stage, case.manner, case.kind), []).append(case)
    dice = random.Random(cases[0].family)
    turns = list(groups.values())
    dice.shuffle(turns)
    for group in turns:
        dice.shuffle(group)
    in_turn = [case for layer in zip_longest(*turns) for case in layer if case is not None]
    return in_turn[:most]
