"""A site's own model under one plan, for methods with personal models. It stays at the site.

It is the model as it was uploaded: the question's, plus the noised update. So it is made of what was paid for, and to
begin with it costs nothing more. A round begins with the model of the last round before it. That is why a computation
that is done once more (after a crash, or for a coordinator that asks anew) begins where the first one did.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder, write_whole
from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested
from fedveil.core.errors import FedveilError
from fedveil.engine.updates import usable
from fedveil.parts.personal import Attention, Personalisation, Shared


class OwnModel:
    """`ROUND.safetensors`, of the last round and of the one before it."""

    def __init__(self, rule: Personalisation, folder: Path) -> None:
        if isinstance(rule, Shared | Attention):
            raise FedveilError(f"personal: with '{rule.kind}' a site has no model of its own to begin with")
        self._rule, self._folder = rule, folder

    def start(self, round: int, shared: Tensor) -> Tensor:
        """What a round begins with whose question has the model `shared`; before the first answer, that model."""
        earlier = [trained for trained in self.rounds() if trained < round]
        own = self._read(earlier[-1]) if earlier else shared
        return self._rule.helpers(own.unsqueeze(0), shared)

    def keep(self, round: int, shared: Tensor, update: Tensor) -> None:
        """Store the model of an answer, on the disk before the answer can be."""
        with disk_errors(self._folder):
            if not self._folder.is_dir():
                make_folder(self._folder, PRIVATE_FOLDER)
        write_whole(self._file(round), digested({"model": shared + usable(update)}), private=True)
        earlier = [trained for trained in self.rounds() if trained < round]
        with disk_errors(self._folder):
            for old in earlier[:-1]:
                self._file(old).unlink(missing_ok=True)

    def rounds(self) -> list[int]:
        """Whose models are here."""
        return sorted(int(path.stem) for path in self._folder.glob("[0-9]*.safetensors"))

    def _read(self, round: int) -> Tensor:
        try:
            return read_digested(self._file(round))[0]["model"]
        except TensorsDamaged as error:
            raise FedveilError(f"{self._file(round)}: the site's own model is damaged ({error})") from None

    def _file(self, round: int) -> Path:
        return self._folder / f"{round:06d}.safetensors"
