"""A coordinator's directory.

plan.json         what sites agree to, by its hash
coordinator.key   what questions are signed with; secret
federation.json   where the public validation records are
marks.json        what each site gave to be shown to it next time
contacts.jsonl    what each site did with each question: for people, not for release
authority/        the federation's own; its key is secret
connection.key    of the coordinator's certificate; secret
kit/              what the transport starts from, with its logs
invitations/      one for each site, to be sent to it; nothing in them is secret
run/              a run like any other: ledger, checkpoints, result, model
held              locked while a process works here
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedveil.config.federation_plan import FederationPlan, RegisteredSite, read_plan
from fedveil.core.atomic import disk_errors, private_opener, write_whole
from fedveil.core.errors import FedveilError
from fedveil.core.signing import SigningKey, read_signing_key
from fedveil.runs.files import RunFiles
from fedveil.runtimes.site_network import RemoteSite


@dataclass(frozen=True)
class Contact:
    """What a site did when it was asked: `problem` is empty where it answered. `round` is None when it was to join."""

    time: float
    site: str
    round: int | None
    problem: str = ""
    text: str = ""


@dataclass(frozen=True)
class CoordinatorHome:
    """Where things are."""

    directory: Path

    @property
    def plan_file(self) -> Path:
        return self.directory / "plan.json"

    @property
    def key_file(self) -> Path:
        return self.directory / "coordinator.key"

    @property
    def settings_file(self) -> Path:
        return self.directory / "federation.json"

    @property
    def marks_file(self) -> Path:
        return self.directory / "marks.json"

    @cached_property
    def contacts_file(self) -> Path:
        return self.directory / "contacts.jsonl"

    @property
    def kit(self) -> Path:
        return self.directory / "kit"

    @property
    def run(self) -> RunFiles:
        return RunFiles(self.directory / "run")

    @cached_property
    def plan(self) -> FederationPlan:
        if not self.plan_file.is_file():
            raise FedveilError(f"{self.directory}: not a coordinator's directory (plan.json is missing)")
        with disk_errors(self.plan_file):
            return read_plan(self.plan_file.read_bytes())

    @cached_property
    def key(self) -> SigningKey:
        return read_signing_key(self.key_file)

    @property
    def sites(self) -> tuple[RemoteSite, ...]:
        return tuple(RemoteSite(site.name, bytes.fromhex(site.key)) for site in self.plan.sites)

    @property
    def validation(self) -> Path | None:
        """The public records that the model is measured on."""
        named = read_table_of(self.settings_file).get("validation")
        return None if named is None else Path(str(named))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody else run this federation, or invite to it, for as long: two would share a port and a kit."""
        with disk_errors(self._held):
            file = private_opener(str(self._held), os.O_RDWR | os.O_CREAT)
        try:
            if not any(_locked(file, fcntl.LOCK_EX, pause) for pause in (0.0, 0.1, 0.2)):  # somebody may be looking
                raise FedveilError(f"{self.directory}: another process is working on this federation")
            yield
        finally:
            os.close(file)  # and with it goes the lock

    @property
    def is_held(self) -> bool:
        """Whether a process works here now."""
        if not self._held.is_file():
            return False
        with disk_errors(self._held):
            file = os.open(self._held, os.O_RDONLY)
        try:
            return not _locked(file, fcntl.LOCK_SH)
        finally:
            os.close(file)

    @property
    def _held(self) -> Path:
        return self.directory / "held"

    def read_marks(self) -> dict[str, str]:
        if not self.marks_file.is_file():
            return {}
        return {str(name): str(mark) for name, mark in read_table_of(self.marks_file).items()}

    def keep_marks(self, marks: Mapping[str, str]) -> None:
        write_whole(self.marks_file, json.dumps(dict(marks)).encode(), private=True)

    def note_contact(self, contact: Contact) -> None:
        """For people. It is not synced: a thousand sites answer in a round, and nothing rests on these lines."""
        line = (json.dumps(vars(contact)) + "\n").encode()
        with disk_errors(self.contacts_file):
            file = private_opener(str(self.contacts_file), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(file, line)  # in one piece, so that who reads meanwhile sees whole lines
            finally:
                os.close(file)

    def contacts(self) -> list[Contact]:
        """All that was noted, in its order; a line that was cut off is left out."""
        if not self.contacts_file.is_file():
            return []
        with disk_errors(self.contacts_file):
            lines = self.contacts_file.read_text(encoding="utf-8", errors="replace").split("\n")
        contacts = []
        for line in lines:
            try:
                contacts.append(Contact(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return contacts


def now() -> float:
    return round(time.time(), 3)


def read_table_of(path: Path) -> dict[str, Any]:
    """A table in a JSON file."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FedveilError(f"{path}: can't be read ({error})") from None
    if not isinstance(table, dict):
        raise FedveilError(f"{path}: can't be read (not a table)")
    return table


def read_registration(path: Path, schema: str) -> RegisteredSite:
    """What a site registered itself with; `schema` is the digest of the schema that all must encode with."""
    table = read_table_of(path)
    if table.get("schema") != schema:
        raise FedveilError(f"{path}: this site encodes its records by another schema")
    try:
        return RegisteredSite(table["name"], table["records"], table["key"], table.get("held_out", 0))
    except (KeyError, TypeError):
        raise FedveilError(f"{path}: not the registration of a site") from None


def _locked(file: int, kind: int, pause: float = 0.0) -> bool:
    """Whether a lock could be had at once, after a pause."""
    time.sleep(pause)
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
