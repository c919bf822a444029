"""The clients' own models between rounds, on disk: thousands of them do not fit into memory.

Every training writes a new file, and the old one goes only when a later checkpoint is safe (`forget`). After a crash
the models are therefore those of the checkpoint (`rewind`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder, write_whole
from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested
from fedveil.core.errors import FedveilError
from fedveil.engine.client import Upload
from fedveil.engine.updates import usable
from fedveil.parts.personal import Attention, Personalisation, Shared

SCORE = "accuracy"
"""What a file calls the score of its model; for numbers it is the mean absolute error of the scaled labels."""

Starts = Callable[[Sequence[int]], Tensor]
"""The models `[K, P]` that clients begin with."""


class AtTheirSites:
    """Stands for clients' own models where clients are real sites: each keeps its own, and begins with it there."""

    own_score: float | None = None

    def starts(self, shared: Tensor, cohort: Sequence[int]) -> None:
        return None

    def keep(self, round: int, shared: Tensor, upload: Upload) -> None: ...

    def forget(self) -> None: ...


class PersonalModels:
    """One file per client and training: `CLIENT-ROUND.safetensors`."""

    def __init__(self, rule: Personalisation, directory: Path) -> None:
        if isinstance(rule, Shared):
            raise FedveilError("personal: a method with one shared model keeps none for its clients")
        self._rule, self._directory = rule, directory
        with disk_errors(directory):
            if not directory.is_dir():
                make_folder(directory, PRIVATE_FOLDER)
        self._rounds: dict[int, list[int]] = {}
        for path in sorted(directory.glob("*-*.safetensors")):
            client, round = path.stem.split("-")
            self._rounds.setdefault(int(client), []).append(int(round))
        self._scores: dict[int, float] = {}

    def rewind(self, rounds: int) -> None:
        """Forget what was trained after the first `rounds` rounds, or half written; nobody has seen it published.

        What is older than a client's last model before that goes too: a crash may have come before `forget`.
        """
        with disk_errors(self._directory):
            for unfinished in self._directory.glob(".*.part"):
                unfinished.unlink(missing_ok=True)
            for client, trained in list(self._rounds.items()):
                for round in [round for round in trained if round >= rounds]:
                    self._path(client, round).unlink(missing_ok=True)
                    trained.remove(round)
                if not trained:
                    del self._rounds[client]
        self.forget()
        self._scores = {client: score for client in self._rounds if (score := self._stored(client)[1]) is not None}

    def starts(self, shared: Tensor, cohort: Sequence[int]) -> Starts:
        """How clients of this cohort begin a round whose global model is `shared`; newcomers begin with it."""
        rule = self._rule
        if isinstance(rule, Attention):
            mixed = rule.mixtures(torch.stack([self.model(client, shared) for client in cohort])) if cohort else shared
            place = {client: index for index, client in enumerate(cohort)}
            return lambda clients: mixed[[place[client] for client in clients]]
        assert not isinstance(rule, Shared)
        return lambda clients: rule.helpers(torch.stack([self.model(client, shared) for client in clients]), shared)

    def keep(self, round: int, shared: Tensor, upload: Upload) -> None:
        """Store the client's model as it was uploaded, with its score on the client's own test set.

        It is on the disk before a checkpoint that lets the older model go can be.
        """
        model = shared + usable(upload.update)
        facts = {} if upload.own_score is None else {SCORE: repr(upload.own_score)}
        write_whole(self._path(upload.client, round), digested({"model": model}, facts))
        self._rounds.setdefault(upload.client, []).append(round)
        if upload.own_score is not None:
            self._scores[upload.client] = upload.own_score

    def forget(self) -> None:
        """Drop all but each client's newest model, when a checkpoint that needs no older one is safe."""
        with disk_errors(self._directory):
            for client, trained in self._rounds.items():
                while len(trained) > 1:
                    self._path(client, trained.pop(0)).unlink(missing_ok=True)

    def model(self, client: int, shared: Tensor) -> Tensor:
        """A client's own model, or the global one if it has none yet."""
        return self._stored(client)[0] if client in self._rounds else shared

    @property
    def own_score(self) -> float | None:
        """The mean over all clients that have trained of their own models' score on their own test sets.

        The exact sum does not depend on the order in which clients trained, which a resumed run does not know.
        """
        return math.fsum(self._scores.values()) / len(self._scores) if self._scores else None

    def _stored(self, client: int) -> tuple[Tensor, float | None]:
        path = self._path(client, self._rounds[client][-1])
        try:
            tensors, facts = read_digested(path)
        except TensorsDamaged as error:
            raise FedveilError(
                f"{path}: the client's model is damaged ({error}); put it back from a copy, or begin a new run"
            ) from None
        return tensors["model"], float(facts[SCORE]) if SCORE in facts else None

    def _path(self, client: int, round: int) -> Path:
        return self._directory / f"{client:07d}-{round:06d}.safetensors"
