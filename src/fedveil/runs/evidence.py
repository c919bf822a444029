"""Results of attacks and audits of a run, kept in its directory: `attacks/NNN-VIEW/`, `audits/NNN-UNIT-VIEW.json`.

Each result carries a digest of the spec it was made with. A result for another spec is no evidence about this run.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedveil.attacks.inversion.reconstruction_pictures import Tile
from fedveil.config.spec import resolve
from fedveil.core.atomic import PRIVATE_FOLDER, disk_errors, write_whole
from fedveil.core.digests import text_digest
from fedveil.core.errors import FedveilError
from fedveil.core.types import View
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts, Theft
from fedveil.runs.files import RunFiles

RESULT = "result.json"


def keep_attack(run: RunFiles, result: Mapping[str, Any], tiles: Sequence[Tile]) -> Path:
    """A new directory below `attacks/`; its result is written last, so that a crash leaves nothing half."""
    with disk_errors(run.attacks):
        run.attacks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        directory = run.attacks / f"{_next(run.attacks)}-{result['view']}"
        directory.mkdir()
    shown = []
    for number, tile in enumerate(tiles, 1):
        names = {side: f"record-{number}-{side}.png" for side in ("truth", "found")}
        write_whole(directory / names["truth"], tile.truth)
        write_whole(directory / names["found"], tile.found)
        shown.append({"client": tile.client, "rmse": tile.rmse, **names})
    run.write_json(directory / RESULT, {**_stamp(run), **result, "records": shown})
    return directory


def keep_audit(run: RunFiles, result: Mapping[str, Any]) -> Path:
    """A new file below `audits/`."""
    with disk_errors(run.audits):
        run.audits.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    path = run.audits / f"{_next(run.audits)}-{result['unit']}-{result['view']}.json"
    run.write_json(path, {**_stamp(run), **result})
    return path


def read_attacks(run: RunFiles) -> tuple[list[AttackFacts], list[str]]:
    """What was kept, oldest first, and in one line each what could not be read."""
    attacks, problems = [], []
    for path in sorted(run.attacks.glob(f"*/{RESULT}")):
        try:
            table = _read(run, path)
            attacks.append(AttackFacts.from_dict(table, [_theft(path, shown) for shown in table.get("records", [])]))
        except FedveilError as error:
            problems.append(run.shortened(error))
        except (OSError, KeyError, TypeError, ValueError, OverflowError) as error:
            problems.append(f"{path.parent.name}: what the attack left can't be read ({error!r})")
    return attacks, problems


def _theft(path: Path, shown: Mapping[str, Any]) -> Theft:
    truth, guess = (_beside(path, shown[side]) for side in ("truth", "found"))
    return Theft(int(shown["client"]), float(shown["rmse"]), truth, guess)


def _beside(path: Path, name: str) -> bytes:
    """A file of the same directory, whatever else the name may say."""
    return (path.parent / Path(name).name).read_bytes()


def read_audits(run: RunFiles) -> tuple[list[AuditFacts], list[str]]:
    """What was kept, oldest first, and in one line each what could not be read."""
    audits, problems = [], []
    for path in sorted(run.audits.glob("*.json")):
        try:
            audits.append(AuditFacts.from_dict(_read(run, path)))
        except FedveilError as error:
            problems.append(run.shortened(error))
        except (KeyError, TypeError, ValueError) as error:
            problems.append(f"{path.name}: what the audit left is not of this version ({error!r})")
    return audits, problems


def _next(directory: Path) -> str:
    taken = [int(entry.name[:3]) for entry in directory.iterdir() if entry.name[:3].isdigit()]
    return f"{max(taken, default=0) + 1:03d}"


def _stamp(run: RunFiles) -> dict[str, str]:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"created": now, "spec": text_digest(run.read_spec())}


def _read(run: RunFiles, path: Path) -> dict[str, Any]:
    table = run.read_json(path)
    if table.get("spec") != text_digest(run.read_spec()):
        raise FedveilError(f"{path}: found out about another spec than this run's; remove it")
    if table.get("view") == View.ON_DEVICE and _saw_noise(table) and not resolve(run.spec).method.noises_rows:
        raise FedveilError(f"{path}: speaks of rows with noise, and this run's rows are clean; remove it and repeat it")
    return table


def _saw_noise(table: Mapping[str, Any]) -> bool:
    """Whether an attack met noise, or an audit took it for granted.

    In runs of formats 1 and 2 rows got noise of their own whenever somebody looked at them, and only then.
    """
    facts = table.get("facts")
    return bool(facts["noise_std"] if isinstance(facts, Mapping) else table.get("promised"))
