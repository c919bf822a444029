"""Whoever sees clients' work: single gradients on a device, or finished updates with the reports of their norms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins
from fedveil.attacks.audit.canaries import Records
from fedveil.attacks.audit.watching import (
    Place,
    Watcher,
    both,
    example_factors,
    moved_starts,
    signs,
    update_bound,
)
from fedveil.core.streams import Streams
from fedveil.core.types import Taps, View
from fedveil.engine.client import NO_TAPS, Broadcast, Upload
from fedveil.engine.gradients import Gradients
from fedveil.engine.personal_models import Starts
from fedveil.engine.sites import Sites
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.method import Method

TAPPED_TOGETHER = 10
"""Clients that are tapped in the same steps, those in which any of them uses its canary: one by one is slower."""

FAR = 10.0
"""How many clipping bounds a canary client's update is long."""


@dataclass(kw_only=True)
class InUpdate(Watcher):
    """`client` and `server`: the update, along the canary's direction of the round, `[rounds, P]` for all rounds.

    Directions differ between rounds. So an update also shows, along the next round's direction, its noise alone; if
    the next round has the same noise, the two numbers together show the canary without any.
    """

    view: View
    directions: Tensor

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        yield list(cohort), Taps(frozenset({self.view}))

    def _noisy(self, broadcast: Broadcast, upload: Upload) -> Iterator[tuple[Place, Tensor]]:
        yield Place(broadcast.round, upload.client), self._update(broadcast, upload)

    def _read(self, broadcast: Broadcast, upload: Upload, index: int) -> None:
        update = self._update(broadcast, upload)
        products = update * self.directions[broadcast.round]
        self._note_blocks(broadcast.round, "own", index, products)
        if broadcast.round + 1 < len(self.directions):
            self._note(broadcast.round, "next", index, float(update @ self.directions[broadcast.round + 1]))
        self._scores[index] += self._weight(broadcast) * float(products.sum())

    def _update(self, broadcast: Broadcast, upload: Upload) -> Tensor:
        """The update `[P]` as it is compared with the direction."""
        return self._shown(upload)

    def _shown(self, upload: Upload) -> Tensor:
        """What the view shows: the server what arrives, and whoever taps a client what was observed there."""
        (observation,) = upload.observations
        return upload.update if self.view is View.SERVER else observation.tensors

    def _weight(self, broadcast: Broadcast) -> float:
        """What one unit of length along the direction says."""
        raise NotImplementedError


@dataclass(kw_only=True)
class RecordInUpdate(InUpdate):
    """For records: the direction is the difference that the canary makes to the first step's sum."""

    def _update(self, broadcast: Broadcast, upload: Upload) -> Tensor:
        """How far the training went: what the client began with beside the global model is known."""
        (observation,) = upload.observations
        return self._shown(upload) - (observation.start - broadcast.parameters)

    def _weight(self, broadcast: Broadcast) -> float:
        return -1 / example_factors(self.method, broadcast.round)[1]  # training walks against gradients

    def _read(self, broadcast: Broadcast, upload: Upload, index: int) -> None:
        super()._read(broadcast, upload, index)
        if upload.report is not None:
            self._note_report(broadcast.round, index, upload.report)


@dataclass(kw_only=True)
class ClientInUpdate(InUpdate):
    """For canary clients that all go into one direction if they are in.

    The score is the log-likelihood ratio of the update and the report of its norm. The place of a client that is gone
    contributes nothing to either, so what a client without records reports is taken off its report.
    """

    coins: Coins
    opposite: bool

    def _starts(self, broadcast: Broadcast, starts: Starts | None) -> Starts | None:
        far = FAR * update_bound(self.method, broadcast) * self.directions[broadcast.round]
        factors = signs(self.coins, self.opposite)
        return moved_starts(broadcast, starts, {c: far * factors[i] for c, i in self._canary.items()})

    def _weight(self, broadcast: Broadcast) -> float:
        mechanism = self._mechanism(broadcast)
        if mechanism is None or mechanism.sigma == 0:
            return 1 / update_bound(self.method, broadcast)
        direction = self.directions[broadcast.round]
        reach = mechanism.bound * (1.0 if mechanism.clip.by == "layer" else 1 / float(direction.norm()))
        return reach / mechanism.sum_std(1) ** 2

    def _read(self, broadcast: Broadcast, upload: Upload, index: int) -> None:
        super()._read(broadcast, upload, index)
        mechanism = self._mechanism(broadcast)
        if mechanism is None or mechanism.reporter is None or upload.report is None:
            return
        far = FAR * mechanism.bound * self.directions[broadcast.round].norm()
        there, nothing = mechanism.reporter.report(torch.stack((far, torch.zeros(()))), mechanism.bound)
        report = upload.report if self.coins[index] or self.opposite else upload.report - nothing
        self._note_report(broadcast.round, index, report)
        if not self.opposite:  # two updates of one length report the same
            self._scores[index] += float(report @ there) / mechanism.reporter.std**2

    def _mechanism(self, broadcast: Broadcast) -> GaussianRound | None:
        upload = self.method.upload
        return None if upload is None else upload.at(broadcast.round, self.method.rounds, broadcast.bound)


@dataclass(kw_only=True)
class RecordOnDevice(Watcher):
    """`on_device`: the canary's own noisy gradient, whenever it is used, against what it would be without noise.

    Which records a batch holds is in plain sight there. The score is the log-likelihood ratio up to the noise's scale.
    """

    gradients: Gradients
    records: Records
    sites: Sites
    streams: Streams

    def __post_init__(self) -> None:
        super().__post_init__()
        self._gradients_of: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def _watched(self, broadcast: Broadcast, cohort: Sequence[int]) -> Iterator[tuple[list[int], Taps]]:
        self._slots: dict[tuple[int, int], list[int]] = {}
        self._own_steps = {client: self._steps(broadcast.round, client) for client in {*cohort, *self.clients}}
        groups = [self.clients[i : i + TAPPED_TOGETHER] for i in range(0, len(self.clients), TAPPED_TOGETHER)]
        groups.append(tuple(client for client in cohort if client not in self._canary))
        for group in groups:
            # A tapped step may round differently, so who is tapped when must not depend on who else takes part.
            tapped = frozenset[int]().union(*(self._own_steps[client] for client in group))
            members = [client for client in group if client in cohort]
            if members:
                yield members, Taps(frozenset({View.ON_DEVICE}), tapped) if tapped else NO_TAPS

    def _steps(self, round: int, client: int) -> frozenset[int]:
        """The steps that are looked at: those in which a canary is used, whose slots are noted; else the first."""
        used = uses(self.method, self.sites, self.streams, round, client) if client in self._canary else []
        for step, slot in used:
            self._slots.setdefault((client, step), []).append(slot)
        if not used and (client in self._canary or client in self.samples.clients):
            return frozenset({0})
        return frozenset(step for step, _ in used)

    def _noisy(self, broadcast: Broadcast, upload: Upload) -> Iterator[tuple[Place, Tensor]]:
        """The canary's own rows, and one more of the same batch."""
        for observation in upload.observations:
            assert observation.step is not None
            if observation.step not in self._own_steps[upload.client]:
                continue  # it is looked at for another client
            slots = self._slots.get((upload.client, observation.step), [])
            others = [slot for slot in range(len(observation.tensors)) if slot not in slots][:1]
            for slot in slots + others:
                yield Place(broadcast.round, upload.client, observation.step, slot), observation.tensors[slot]

    def _read(self, broadcast: Broadcast, upload: Upload, index: int) -> None:
        bound = example_factors(self.method, broadcast.round)[1]
        for observation in upload.observations:
            assert observation.step is not None
            if (upload.client, observation.step) not in self._slots:
                continue
            inside, outside = self._alternatives(broadcast.round, observation.start)
            middle, difference = (inside + outside) / 2, inside - outside
            for slot in self._slots[upload.client, observation.step]:
                products = (observation.tensors[slot] - middle) * difference / bound**2
                self._note_blocks(broadcast.round, "own", index, products)
                self._scores[index] += float(products.sum())

    def _alternatives(self, round: int, model: Tensor) -> tuple[Tensor, Tensor]:
        """The canary's gradient and that of its stand-in `[P]`; all clients begin a round with the same model."""
        known = self._gradients_of.get(round)
        if known is None or not torch.equal(known[0], model):
            inside, outside = both(self.gradients, model, self.records, example_factors(self.method, round)[0])
            known = (model, inside[0], outside[0])
            self._gradients_of.setdefault(round, known)
        return known[1:]


def record_directions(gradients: Gradients, method: Method, models: Sequence[Tensor], records: Records) -> Tensor:
    """For the model of each round the direction `[rounds, P]` in which the canary moves the first step's sum."""
    directions = []
    for round, model in enumerate(models):
        inside, outside = both(gradients, model, records, example_factors(method, round)[0])
        directions.append(torch.nn.functional.normalize(inside[0] - outside[0], dim=0))
    return torch.stack(directions)


def uses(method: Method, sites: Sites, streams: Streams, round: int, client: int) -> list[tuple[int, int]]:
    """The steps and slots in which a client's first record is used in a round."""
    draws = sites.draw(method, round, [client], streams)
    filled = torch.arange(draws.indices.shape[2]) < draws.counts[0, :, None]
    used = (draws.indices[0] == sites.members(client)[0]) & filled
    return [(step, slot) for step, slot in used.nonzero().tolist()]
