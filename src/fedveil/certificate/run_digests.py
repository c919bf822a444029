"""What of a run directory a certificate is held to. Read without PyTorch, and without running anything it names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path

from fedveil.certificate.stated_facts import RunDigests
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import FedveilError
from fedveil.ledger.anchor import user_key
from fedveil.ledger.store import Ledger

SPEC_FILE, MANIFEST_FILE, MODEL_FILE, LEDGER_FILE = "spec.toml", "run.json", "model.safetensors", "ledger.sqlite"

_WHAT = {
    "spec": f"the spec ({SPEC_FILE})",
    "manifest": MANIFEST_FILE,
    "model": f"the model ({MODEL_FILE})",
    "ledger": "the ledger's head",
    "ledger_entries": "the ledger's length",
    "receipts": "what the receipts say",
    "receipts_counted": "the number of receipts",
}


def digests_of_run(directory: Path) -> RunDigests:
    """Of the files as they are; an error where the ledger can't be read, or is not chained."""
    if not (directory / SPEC_FILE).is_file() or not (directory / MANIFEST_FILE).is_file():
        raise FedveilError(f"{directory}: not a run directory (run.json or spec.toml is missing)")
    path, model = directory / LEDGER_FILE, directory / MODEL_FILE
    if not path.is_file():
        raise FedveilError(f"{path}: the ledger is missing, so what was spent is not known")
    with Ledger(path, key=user_key()) as ledger:
        first = ledger.first_head
        if first is None:
            raise FedveilError(f"{path}: not chained (an older format), so there is nothing to hold a certificate to")
        receipts = ledger.receipts()
        length, head = ledger.summary.entries, ledger.head
    return RunDigests(
        file_digest(directory / SPEC_FILE),
        file_digest(directory / MANIFEST_FILE),
        file_digest(model) if model.is_file() else None,
        head,
        length,
        _receipts_digest(first, [asdict(receipt) for receipt in receipts]),
        len(receipts),
    )


def file_digest(path: Path) -> str:
    with disk_errors(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _receipts_digest(first_head: str, receipts: list[dict[str, object]]) -> str:
    """Salted with the first head, which follows from random bytes and is not published."""
    text = json.dumps([first_head, receipts], sort_keys=True)
    return hashlib.sha256(b"fedveil receipts\n" + text.encode()).hexdigest()


def digest_problem(certified: RunDigests, directory: Path) -> str | None:
    """What of the run is not what was certified; None where everything is."""
    now = digests_of_run(directory)
    changed = [field.name for field in fields(RunDigests) if getattr(now, field.name) != getattr(certified, field.name)]
    if not changed:
        return None
    if "ledger_entries" in changed and now.ledger_entries > certified.ledger_entries:
        return "the run has gone on since it was certified"
    return f"{_WHAT[changed[0]]} is not what was certified"
