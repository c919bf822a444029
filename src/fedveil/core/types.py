"""The types that every part of the system shares: units, views, declarations, charges, receipts, observations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line asks for units and views long before it needs tensors
    from torch import Tensor


class Unit(StrEnum):
    """What a guarantee protects: one example of one client, or everything that one client holds."""

    RECORD = "record"
    CLIENT = "client"


class View(StrEnum):
    """Against whom a guarantee holds: what an adversary can look at."""

    ON_DEVICE = "on_device"  # each example's gradient while a client trains (type-2 leakage)
    CLIENT = "client"  # the finished update on the device, before it leaves (type-1)
    SERVER = "server"  # each client's update as it arrives (type-0)
    PEER = "peer"  # the models another client receives in the rounds it takes part in
    RELEASED = "released"  # every published global model

    @property
    def adversary(self) -> Adversary:
        return _ADVERSARIES[self]


@dataclass(frozen=True)
class Adversary:
    """Who has a view, for sentences about it: `who` is the beginning of such a sentence, `sees` the rest.

    `watches` is what is seen of all clients together.
    `of_clients_work`: the view shows single clients' work, so the engine can hand it out (`Taps`).
    """

    who: str
    sees: str
    watches: str
    of_clients_work: bool


_ADVERSARIES = {
    View.ON_DEVICE: Adversary(
        "Someone who taps a device's training",
        "sees every single gradient, not the records",
        "every single gradient on the devices",
        of_clients_work=True,
    ),
    View.CLIENT: Adversary(
        "Someone who gets the finished update off a device",
        "sees it before it leaves, not the records",
        "every update on the devices",
        of_clients_work=True,
    ),
    View.SERVER: Adversary(
        "The server and its operator",
        "see each client's update as it arrives",
        "every client's update as it arrives",
        of_clients_work=True,
    ),
    View.PEER: Adversary(
        "Another client", "sees the models that it receives", "the models that one client receives", False
    ),
    View.RELEASED: Adversary("Anybody else", "sees every published model", "every published model", False),
}
"""A new view is listed above and here; its rule stands in `accounting/round_rules.py`."""

CLIENTS_WORK = tuple(view for view in View if view.adversary.of_clients_work)
"""The views of single clients' work."""


TableCell = tuple[Unit, View]
"""A cell of the table of guarantees: what is protected, against which view."""


@dataclass(frozen=True)
class Population:
    """Who takes part: `records[i]` is the number of records of client `i`, a public fact.

    `names[i]` is what it is called; simulated clients have no names.
    """

    records: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def clients(self) -> int:
        return len(self.records)

    def name(self, client: int) -> str:
        """What one client is called in a message."""
        return f"site '{self.names[client]}'" if self.names else f"client {client}"


@dataclass(frozen=True)
class Sampling:
    """How one client's batches of a round were drawn, as far as it matters for privacy amplification.

    `kind` is `poisson`, `without-replacement`, `partition`, `allocated` (each record in one step of the round, chosen
    uniformly) or `all` (every record in every step); `records` is N_i and `batch` the declared B (for Poisson and
    allocated batches the expected one), so the rate is B/N_i. `cap` is the number of slots a batch has; only these two
    can overflow it. `uses` bounds how often one record can be drawn in the round.
    """

    kind: str
    records: int
    batch: int
    cap: int
    uses: int


@dataclass(frozen=True)
class Declaration:
    """What a mechanism says it does to one client in one round. The accountant reads nothing else.

    One step adds N(0, `sum_std`²) per coordinate to a sum in which one `unit` can change at most `sensitivity`
    (L2); `steps` such steps are made. `row_std` is the noise each single row carries by itself (0 where only the
    sum is noisy). `bound` is the clipping bound C_t behind the sensitivity.

    `report` is the noise multiplier of what is released together with the sum to choose the next bound (a noisy
    count or histogram of norms); None where nothing is. `leaks_bound` says that the bound was read from the norms
    without any noise, which no ε covers. `adds_up` says that the published model is made from the plain sum of such
    noisy contributions, so that the noises of a whole cohort stand between one of them and whoever sees only the model.
    """

    place: str
    unit: Unit
    steps: int
    bound: float
    sensitivity: float
    sum_std: float
    row_std: float
    sampling: Sampling
    report: float | None = None
    leaks_bound: bool = False
    adds_up: bool = False


@dataclass(frozen=True)
class Charge:
    """What one mechanism will do to one client in a round. It is written down before anything of the round is sent."""

    round: int
    client: int
    declared: Declaration


@dataclass(frozen=True)
class Receipt:
    """What a mechanism really did: its declaration as executed, and whether the noise was seen on the tensors.

    `confirmed` says that the noise measured where it was added has the declared size. Only this bit leaves the client:
    the measured value is a function of the noise, and whoever held it beside the update could test for a record.
    `draws` counts the Gaussian coordinates added over all steps.
    """

    round: int
    client: int
    did: Declaration
    confirmed: bool
    draws: int

    @property
    def charge(self) -> Charge:
        """What a round that did this must have been charged."""
        return Charge(self.round, self.client, self.did)


@dataclass(frozen=True)
class Taps:
    """Which views an observer asks for, and (on the device) in which local steps."""

    views: frozenset[View] = frozenset()
    steps: frozenset[int] = frozenset({0})

    def wants(self, view: View) -> bool:
        return view in self.views


@dataclass(frozen=True)
class Observation:
    """What one view shows of one client in one round: the very tensors of the training.

    `on_device`: the sanitised gradients `[B, P]` of local step `step`; `client` and `server`: the update `[P]`.
    `start` is the public model `[P]` the client began that step or round with (on the device: its current model).
    """

    view: View
    round: int
    client: int
    step: int | None
    start: Tensor
    tensors: Tensor
