"""The files of a run directory. Nothing is ever half-written: files appear whole, by rename, or not at all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedveil.core.atomic import disk_errors, make_folder, private_opener, sync_folder, write_whole
from fedveil.core.deferred import tensor_files, torch
from fedveil.core.digested_tensors import TensorsDamaged, digested, read_digested
from fedveil.core.digests import text_digest
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.parameters import Layout
from fedveil.engine.server_state import ServerState

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 3
"""The version of the run directory that is written: its ledger is chained, and what is read back has digests."""

BEGINNING_SECONDS = 5.0
"""After so long a directory without `run.json` is not being made any more."""

ADDED_UP = ("seconds", "clients", "rejected", "rejected_updates", "upload_bytes", "dense_bytes")
"""What of the rounds' events is added up at the end of a run."""

READABLE = (1, 2, 3)
"""The versions that can be read. Formats 1 and 2 had other ledgers, to which nothing is added any more."""


@dataclass(frozen=True)
class RunFiles:
    """Where things are in a run directory."""

    directory: Path

    @property
    def spec(self) -> Path:
        return self.directory / "spec.toml"

    @property
    def schema(self) -> Path:
        """What the records were encoded with, where they are rows of a table."""
        return self.directory / "schema.toml"

    @property
    def manifest(self) -> Path:
        return self.directory / "run.json"

    @property
    def events(self) -> Path:
        return self.directory / "events.jsonl"

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.sqlite"

    @property
    def records_key(self) -> Path:
        """The key of the records' digest in the ledger; without it nobody can compare records with that."""
        return self.directory / "records.key"

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    @property
    def personal(self) -> Path:
        return self.directory / "clients"

    @property
    def model(self) -> Path:
        return self.directory / "model.safetensors"

    @property
    def card(self) -> Path:
        """What goes with the model: how to load it, what it takes, what is guaranteed; as `.md` for people."""
        return self.directory / "model-card.json"

    @property
    def result(self) -> Path:
        return self.directory / "result.json"

    @property
    def attacks(self) -> Path:
        return self.directory / "attacks"

    @property
    def audits(self) -> Path:
        return self.directory / "audits"

    def create(self) -> None:
        """Make the directory; refuse one that already holds something."""
        with disk_errors(self.directory):
            if self.directory.exists() and not self.directory.is_dir():
                raise ArgumentError("out", f"{self.directory} is a file, not a directory; choose another")
            self.clear_beginning(BEGINNING_SECONDS)
            if self.directory.exists() and any(self.directory.iterdir()):
                raise ArgumentError("out", f"{self.directory} already exists and is not empty; choose another")
            make_folder(self.checkpoints)  # of two that begin here at once, one fails

    def clear_beginning(self, seconds: float = 0.0) -> None:
        """Remove what a run leaves that is killed while its directory is made: nothing was trained or spent yet.

        What is younger than so many seconds may be the beginning of a run that another process is making right now.
        """
        with disk_errors(self.directory):
            if not self.checkpoints.is_dir() or any(self.checkpoints.iterdir()):
                return
            entries = [entry for entry in self.directory.iterdir() if entry != self.checkpoints]
            only_begun = all(
                entry in (self.spec, self.schema, self.records_key) or entry.suffix == ".part" for entry in entries
            )
            if only_begun and time.time() - self.checkpoints.stat().st_mtime >= seconds:
                for entry in entries:
                    entry.unlink()
                self.checkpoints.rmdir()

    def clear_parts(self) -> None:
        """Remove what killed processes left half-written; only for whoever holds the ledger, and so is alone here."""
        with disk_errors(self.directory):
            for folder in (self.directory, self.checkpoints):
                for part in folder.glob(".*.part"):
                    part.unlink(missing_ok=True)

    def check(self) -> None:
        """Refuse what is not a run directory, or one that a newer version made."""
        if not self.manifest.is_file() or not self.spec.is_file():
            raise FedveilError(f"{self.directory}: not a run directory (run.json or spec.toml is missing)")
        manifest = self.read_json(self.manifest)
        if manifest.get("format") not in READABLE:
            raise FedveilError(
                f"{self.directory}: made by fedveil {manifest.get('fedveil', 'of another version')} in format"
                f" {manifest.get('format')}; this version reads formats {READABLE[0]} to {READABLE[-1]}"
            )

    def check_continuable(self) -> None:
        """Refuse to go on with a run of an older format: its ledger is read, and nothing is added to it."""
        if self.format != FORMAT:
            maker = f"fedveil {self.read_json(self.manifest).get('fedveil', 'of another version')}"
            raise FedveilError(
                f"{self.directory}: made by {maker} in format {self.format}; this version reads it and adds nothing to"
                " it; go on with the version that made it"
            )

    @property
    def format(self) -> int:
        """The version of this directory; that which is written, while `run.json` is not there yet."""
        return int(self.read_json(self.manifest).get("format", FORMAT)) if self.manifest.is_file() else FORMAT

    def read_json(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FedveilError(f"{path}: can't be read ({error})") from None
        if not isinstance(content, dict):
            raise FedveilError(f"{path}: can't be read (not a table)")
        return content

    def shortened(self, error: Exception) -> str:
        """The text of an error without the path of the directory, which a page that is passed on should not show."""
        return str(error).replace(f"{self.directory}/", "")

    def read_spec(self) -> str:
        """The spec as it was written down."""
        try:
            return self.spec.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FedveilError(f"{self.spec}: can't be read ({error})") from None

    def initial(self) -> int | None:
        """The seed of the run's network, so that what is never trained stays what it was; older runs lack it."""
        seed = self.read_json(self.manifest).get("initial")
        return seed if isinstance(seed, int) else None

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        write_whole(path, (json.dumps(content, indent=2) + "\n").encode())

    def write_ending(self, path: Path, table: Mapping[str, Any]) -> None:
        """What is written when a run ends, with a digest of that, so that a changed number is noticed."""
        self.write_json(path, {**table, "digest": _table_digest(table)})

    def read_ending(self, path: Path) -> dict[str, Any]:
        """What `write_ending` was given; an error where it is something else. Older formats have no digest."""
        table = self.read_json(path)
        digest = table.pop("digest", None)
        lacking = digest is None and self.format < FORMAT
        if not lacking and digest != _table_digest(table):
            raise FedveilError(f"{path}: was changed after the run ended (its digest does not fit)")
        return table

    def write_result(self, table: Mapping[str, Any]) -> None:
        """How the run ended."""
        self.write_ending(self.result, table)

    def read_result(self) -> dict[str, Any]:
        """How the run ended."""
        return self.read_ending(self.result)

    # Checkpoints

    def save_checkpoint(self, state: ServerState, layout: Layout) -> None:
        """Publish a state; older checkpoints are removed once the new one is safe."""
        tensors: dict[str, Tensor] = {f"model/{name}": t for name, t in layout.split(state.parameters).items()}
        tensors |= {f"server/{index}": tensor for index, tensor in enumerate(state.optimiser)}
        if state.average is not None:
            tensors["average"] = state.average.clone()  # the first mean is the model itself
        path = self.checkpoints / f"round-{state.round:06d}.safetensors"
        facts = {"round": str(state.round)} | ({} if state.bound is None else {"bound": repr(state.bound)})
        write_whole(path, digested(tensors, facts))
        self._drop_others(path)

    def load_checkpoint(self, layout: Layout) -> ServerState | None:
        """The newest published state; None if the run was stopped before its first."""
        paths = self._checkpoint_paths()
        if not paths:
            return None
        path = paths[-1]
        try:
            tensors, facts = read_digested(path, required=self.format == FORMAT)
            if {f"model/{name}": shape for name, shape, _ in layout} != {
                key: tuple(value.shape) for key, value in tensors.items() if key.startswith("model/")
            }:
                raise ValueError("it is of another model")
            named = {key.removeprefix("model/"): value for key, value in tensors.items() if key.startswith("model/")}
            server = sorted((key for key in tensors if key.startswith("server/")), key=lambda key: int(key[7:]))
            bound = float(facts["bound"]) if "bound" in facts else None
            optimiser, average = tuple(tensors[key] for key in server), tensors.get("average")
            return ServerState(int(facts["round"]), layout.join(named), optimiser, bound, average)
        except TensorsDamaged as error:
            raise FedveilError(
                f"{path}: the checkpoint is damaged ({error}); put it back from a copy, or begin a new run"
            ) from None
        except (KeyError, ValueError) as error:
            raise FedveilError(f"{path}: the checkpoint can't be read ({error})") from None

    def published_rounds(self) -> int:
        """How many rounds' models were published."""
        paths = self._checkpoint_paths()
        return int(paths[-1].stem.removeprefix("round-")) if paths else 0

    def keep_newest_checkpoint(self) -> None:
        """Remove the checkpoints that a crash has left beside the one with which the run goes on."""
        with disk_errors(self.checkpoints):
            sync_folder(self.checkpoints)  # it may have been renamed by a process that got no further
        self._drop_others(self._checkpoint_paths()[-1])

    def _drop_others(self, path: Path) -> None:
        with disk_errors(path):
            for old in self._checkpoint_paths():
                if old != path:
                    old.unlink(missing_ok=True)

    def _checkpoint_paths(self) -> list[Path]:
        return sorted(self.checkpoints.glob("round-*.safetensors"))

    def save_model(self, parameters: Tensor, layout: Layout, model: nn.Module) -> bytes:
        """The whole network's state, also what is not trained, so that it takes records as they are.

        The result is the content of the file.
        """
        layout.load(model, parameters)
        content = tensor_files.save(_contiguous(model.state_dict()))
        write_whole(self.model, content)
        return content

    # Events

    def append_event(self, event: Mapping[str, Any]) -> None:
        """One line of JSON; a crash can at worst leave a last line without its end, which `trim_events` removes."""
        line = json.dumps({"time": round(time.time(), 3), **event})
        with disk_errors(self.events), open(self.events, "a", encoding="utf-8", opener=private_opener) as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_events(self) -> list[dict[str, Any]]:
        """All whole events."""
        if not self.events.exists():
            return []
        with disk_errors(self.events):
            lines = self.events.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        return [event for event in map(_parse, lines) if event is not None]

    def trim_events(self, rounds: int) -> None:
        """Keep the events of the first `rounds` rounds: those whose model was published."""
        self._write_events(
            event
            for event in self.read_events()
            if event["event"] == "start" or (event["event"] == "round" and event["round"] < rounds)
        )

    def add_to_round(self, round: int, figures: Mapping[str, float]) -> None:
        """Add what was measured of a round after it was noted."""
        self._write_events(
            {**event, **figures} if event.get("round") == round else event for event in self.read_events()
        )

    def _write_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        write_whole(self.events, "".join(json.dumps(event) + "\n" for event in events).encode(), private=True)


def run_of(source: object, overrides: Mapping[str, Any] | None = None) -> RunFiles | None:
    """The run directory that a source names, or None. Overrides are refused: a run has its own settings."""
    files = RunFiles(Path(source)) if isinstance(source, str | Path) else None
    if files is None or not files.manifest.is_file():
        return None
    if overrides:
        raise FedveilError(f"{source}: a run is what it is; for its settings with changes give its spec.toml")
    return files


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}


def _table_digest(table: Mapping[str, Any]) -> str:
    return text_digest(json.dumps(table, sort_keys=True))


def _parse(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("event") not in ("start", "round", "end"):
        return None
    if event["event"] != "round":
        return event
    sound = all(_is_number(event.get(key, 0)) for key in ADDED_UP) and isinstance(event.get("round"), int)
    return event if sound else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
