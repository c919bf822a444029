"""A site's own model under one plan, for methods with personal models. It stays at the site.

It is the model as it was uploaded: the question's, plus the noised update. So it is made of what was paid for, and to
begin with it costs nothing more. A round begins with the model of the last round before it. That is why a computation
that is done once more (after a crash, or for a coordinator that asks anew) begins where the first one did.

Only answers that the ledger says were given count. A computation that was cut off is done once more for the same
charge, with other noise; were its model begun with meanwhile, two noisy answers would leave for one charge.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from torch import Tensor

from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, make_folder, write_whole
from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested
from fedveil.core.errors import FedveilError
from fedveil.engine.updates import usable
from fedveil.parts.personal import Attention, Personalisation, Shared


class OwnModel:
    """`ROUND-CHARGE.safetensors`: of the round that was asked for last, and of the one that it began with."""

    def __init__(self, rule: Personalisation, folder: Path) -> None:
        if isinstance(rule, Shared | Attention):
            raise FedveilError(f"personal: with '{rule.kind}' a site has no model of its own to begin with")
        self._rule, self._folder = rule, folder

    def start(self, round: int, shared: Tensor, given: Collection[int]) -> Tensor:
        """What a round begins with whose question has the model `shared`; before the first answer, that model.

        `given` are the charges whose answers may have left.
        """
        last = self._last_before(round, given)
        own = shared if last is None else self._read(self._file(*last))
        return self._rule.helpers(own.unsqueeze(0), shared)

    def keep(self, round: int, charge: int, shared: Tensor, update: Tensor, given: Collection[int]) -> None:
        """Store the model of an answer, on the disk before the answer can be."""
        with disk_errors(self._folder):
            if not self._folder.is_dir():
                make_folder(self._folder, PRIVATE_FOLDER)
        write_whole(self._file(round, charge), digested({"model": shared + usable(update)}), private=True)
        last = self._last_before(round, given)
        with disk_errors(self._folder):
            for old in self.kept():
                if old[0] < round and old != last:
                    self._file(*old).unlink(missing_ok=True)

    def kept(self) -> list[tuple[int, int]]:
        """Whose models are here: rounds, and the charges of their answers."""
        names = [path.stem.split("-") for path in self._folder.glob("[0-9]*-[0-9]*.safetensors")]
        return sorted((int(round), int(charge)) for round, charge in names)

    def _last_before(self, round: int, given: Collection[int]) -> tuple[int, int] | None:
        return max((old for old in self.kept() if old[0] < round and old[1] in given), default=None)

    def _read(self, path: Path) -> Tensor:
        try:
            return read_digested(path)[0]["model"]
        except TensorsDamaged as error:
            raise FedveilError(f"{path}: the site's own model is damaged ({error})") from None

    def _file(self, round: int, charge: int) -> Path:
        return self._folder / f"{round:06d}-{charge:08d}.safetensors"
