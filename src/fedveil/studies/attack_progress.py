"""Progress of a long attack: printed as groups of victims are done, and stored so that it can go on later."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from fedveil.attacks.inversion.metrics import Successes
from fedveil.attacks.inversion.minimise import Group, Minima
from fedveil.attacks.inversion.reconstruction_pictures import Film
from fedveil.core.atomic import disk_errors, write_whole
from fedveil.core.digested_tensors import digested, read_digested
from fedveil.core.errors import FedveilError
from fedveil.core.progress import Progress, nobody_watches
from fedveil.report.model.number_texts import duration_text

NEARLY_DONE = 0.9
"""The share of its work that a victim's attack has behind it when its records are reconstructed, for who waits."""

EVERY_SECONDS = 10.0
"""At most one line of progress is printed in this time."""


@dataclass
class AttackProgress:
    """Watches one attack and stores its finished groups with what was seen of them; implements `Watch` and `Keeper`.

    Without a `directory` nothing is stored, and it only says how long the attack will still take.
    """

    title: str
    note: Callable[[str], None]
    successes: Successes
    film: Film
    directory: Path | None = None
    shown: Progress = nobody_watches
    most: int = 0  # updates of all victims together, if none succeeds before
    victims: int = 0
    _reached: dict[int, int] = field(default_factory=dict)
    _spoke: float = field(default_factory=lambda: time.monotonic())
    _begun: dict[str, float] = field(default_factory=dict)  # when a try began, here
    _here: Counter[str] = field(default_factory=Counter)  # victims of a try that were attacked here
    _before: Counter[str] = field(default_factory=Counter)  # and those that had been

    def __call__(self, members: Tensor, updates: Tensor, inputs: Tensor) -> None:
        self.successes(members, updates, inputs)
        self.film(members, updates, inputs)
        if self.most:
            self._reached.update(zip(members.tolist(), updates.tolist(), strict=True))
            self.shown(self.title, self._share())

    def _share(self) -> float:
        """Of all updates that could be made; of a victim that is reconstructed nearly all, for it soon ends."""
        least = {victim: NEARLY_DONE * self.most / max(self.victims, 1) for victim in self.successes.first}
        return sum(max(made, least.get(victim, 0.0)) for victim, made in self._reached.items()) / self.most

    def found(self, group: Group) -> Minima | None:
        self._begun.setdefault(group.name, time.monotonic())
        path = self._path(group)
        if path is None or not path.is_file():
            return None
        try:
            held, _ = read_digested(path)
            minima = Minima(held["points"], held["values"], held["updates"], int(held["evaluations"]))
            self._recall(held)
        except (KeyError, ValueError) as error:
            raise FedveilError(f"{path}: can't be read ({error}); remove it") from None
        self._before[group.name] += len(minima.values)
        return minima

    def keep(self, group: Group, minima: Minima) -> None:
        path = self._path(group)
        if path is not None:
            held = {"points": minima.points, "values": minima.values, "updates": minima.updates}
            held |= {"evaluations": torch.tensor(minima.evaluations)} | self._seen()
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, digested(held))
        self._here[group.name] += len(minima.values)
        self._tell(group, time.monotonic())

    def _tell(self, group: Group, now: float) -> None:
        here, done = self._here[group.name], self._here[group.name] + self._before[group.name]
        if now - self._spoke < EVERY_SECONDS or done == group.size:
            return
        self._spoke = now
        left = duration_text((now - self._begun[group.name]) / here * (group.size - done))
        self.note(f"{self.title}, {group.name}: {done} of {group.size} victims attacked; about {left} left")

    def _path(self, group: Group) -> Path | None:
        if self.directory is None:
            return None
        return self.directory / f"{self.title}-{group.name.replace(' ', '-')}-{group.first}.safetensors"

    def _seen(self) -> dict[str, Tensor]:
        first = torch.tensor(list(self.successes.first.items()), dtype=torch.int64).view(-1, 2)
        frames = {
            f"frame/{iteration}/{victim}": records.contiguous()
            for iteration, shown in self.film.frames.items()
            for victim, records in shown.items()
        }
        return {"first": first, **frames}

    def _recall(self, held: dict[str, Tensor]) -> None:
        for victim, iteration in held["first"].tolist():
            self.successes.first.setdefault(victim, iteration)
        for key, records in held.items():
            if key.startswith("frame/"):
                _, iteration, victim = key.split("/")
                self.film.frames.setdefault(int(iteration), {}).setdefault(int(victim), records)
