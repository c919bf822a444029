"""A site's directory: its settings, its keys, its ledger, the plans it agreed to, and the answers it gave.

site.toml           name, where the records are, the policy
schema.toml         how records are encoded, word for word as in every plan
sign.key, mark.key  secrets; neither leaves the directory
registration.json   what a coordinator needs to know: public
ledger.sqlite       with ledger.head beside it: what was ever charged
plans/HASH.json     plans that were agreed to
connection.key      of the certificate that the site connects with; secret
kit/                what the transport starts from
models/HASH/        the site's own model under a plan, for methods that have such models
outbox/             answers, so that the same question gets the same bytes
site.log            what went wrong here, in full; for the site's own people
"""

from __future__ import annotations

import json
import secrets
import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from fedveil.config.federation_plan import FederationPlan, RegisteredSite, read_plan
from fedveil.core.atomic import (
    PRIVATE_FOLDER,
    disk_errors,
    make_folder,
    private_opener,
    whole_folder,
    write_whole,
)
from fedveil.core.digests import keyed_digest
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.signing import SigningKey, read_signing_key
from fedveil.data.examples import Examples, examples_digest
from fedveil.data.record_form import RecordForm, form_digest, form_toml, private_columns, read_form, read_records
from fedveil.ledger.anchor import user_key
from fedveil.ledger.lifetime import LifetimeLedger
from fedveil.site.policy import SitePolicy, read_policy

KEY_BYTES = 32
LARGEST_LOG = 2_000_000
"""Bytes; of a larger log the older half is dropped."""


@dataclass(frozen=True)
class SiteHome:
    """Where things are, and what the site is called."""

    directory: Path

    @property
    def settings_file(self) -> Path:
        return self.directory / "site.toml"

    @property
    def schema_file(self) -> Path:
        return self.directory / "schema.toml"

    @property
    def registration_file(self) -> Path:
        return self.directory / "registration.json"

    @property
    def ledger_file(self) -> Path:
        return self.directory / "ledger.sqlite"

    @property
    def plans(self) -> Path:
        return self.directory / "plans"

    @property
    def outbox(self) -> Path:
        return self.directory / "outbox"

    def models(self, plan: str) -> Path:
        return self.directory / "models" / plan

    @property
    def kit(self) -> Path:
        return self.directory / "kit"

    @property
    def log(self) -> Path:
        return self.directory / "site.log"

    @cached_property
    def settings(self) -> dict[str, Any]:
        try:
            table = tomllib.loads(self.settings_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FedveilError(f"{self.directory}: not a site's directory (site.toml is missing)") from None
        except (OSError, ValueError) as error:
            raise FedveilError(f"{self.settings_file}: can't be read ({error})") from None
        if not all(isinstance(table.get(key), str) for key in ("name", "data")):
            raise FedveilError(f"{self.settings_file}: must say name and data")
        return table

    @property
    def name(self) -> str:
        return str(self.settings["name"])

    @cached_property
    def policy(self) -> SitePolicy:
        try:
            return read_policy(self.settings.get("policy", {}))
        except FedveilError as error:
            raise FedveilError(f"{self.settings_file}: {error}") from None

    @cached_property
    def schema(self) -> RecordForm:
        return read_form(self.schema_file)

    @cached_property
    def records(self) -> Examples:
        """The records, encoded by the schema."""
        return read_records(self._located("data"), self.schema)

    @cached_property
    def held_out(self) -> Examples | None:
        """Further records, which no model is trained on, to measure models on."""
        return read_records(self._located("validation"), self.schema) if "validation" in self.settings else None

    def _located(self, setting: str) -> Path:
        path = Path(self.settings[setting])
        return path if path.is_absolute() else self.directory / path

    @cached_property
    def signing_key(self) -> SigningKey:
        return read_signing_key(self.directory / "sign.key")

    @cached_property
    def mark_key(self) -> bytes:
        path = self.directory / "mark.key"
        with disk_errors(path):
            key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise FedveilError(f"{path}: not a key of {KEY_BYTES} bytes")
        return key

    @property
    def public_key(self) -> str:
        return self.signing_key.public.hex

    @property
    def registration(self) -> RegisteredSite:
        """What is public of this site."""
        held_out = 0 if self.held_out is None else len(self.held_out)
        return RegisteredSite(self.name, len(self.records), self.public_key, held_out)

    def opened_ledger(self) -> LifetimeLedger:
        """The ledger, held to the records and the schema that it was begun with."""
        ledger = LifetimeLedger(self.ledger_file, key=user_key())
        try:
            pins = {"name": self.name, "schema": form_toml(self.schema), "records": self._records_text(self.records)}
            if self.held_out is not None:
                pins["records that are held out"] = self._records_text(self.held_out)
            ledger.begin(pins)
        except BaseException:
            ledger.__exit__(None, None, None)
            raise
        return ledger

    def _records_text(self, records: Examples) -> str:
        """What stands for the records in the ledger: a keyed hash, which says nothing to whoever has not the key."""
        return keyed_digest(self.mark_key, examples_digest(records))

    def plan_file(self, hash: str) -> Path:
        return self.plans / f"{hash}.json"

    def read_plan(self, hash: str) -> FederationPlan:
        """A plan that was agreed to."""
        path = self.plan_file(hash)
        with disk_errors(path):
            plan = read_plan(path.read_bytes())
        if plan.hash != hash:
            raise FedveilError(f"{path}: is another plan than its name says")
        return plan

    def note(self, text: str) -> None:
        """A line for the site's own people. Who asks again and again must not fill the disk."""
        with disk_errors(self.log):
            if self.log.is_file() and self.log.stat().st_size > LARGEST_LOG:
                write_whole(self.log, self.log.read_bytes()[-LARGEST_LOG // 2 :], private=True)
        with disk_errors(self.log), open(self.log, "a", encoding="utf-8", opener=private_opener) as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def make_site(
    directory: str | Path,
    *,
    name: str,
    data: str | Path,
    schema: str | Path,
    policy: SitePolicy,
    validation: str | Path | None = None,
    last: Callable[[SiteHome], None] = lambda home: None,
) -> SiteHome:
    """A new site: keys are made here and stay here. The records stay where they are.

    `validation` has further records, which are held out from every training: models can be measured on them. `last` is
    called with the site when all else is there; a site whose making fails anywhere leaves nothing behind.
    """
    home = SiteHome(Path(directory))
    if home.directory.exists() and any(home.directory.iterdir()):
        raise ArgumentError("home", f"{home.directory} already exists and is not empty; choose another")
    read = read_form(schema)
    if private_columns(read):
        columns = ", ".join(private_columns(read))
        raise ArgumentError("schema", f"what was read off records is private; replace what it says of {columns}")
    records = read_records(Path(data), read)
    if validation is not None:
        read_records(Path(validation), read)
    RegisteredSite(name, len(records), "0" * 64)  # a name that nobody could register is refused before keys are made
    files = {"data": data} if validation is None else {"data": data, "validation": validation}
    paths = {key: str(Path(path).resolve()) for key, path in files.items()}
    settings = {"name": name, **paths, "policy": policy.to_dict()}
    with disk_errors(home.directory), whole_folder(home.directory):
        if not home.directory.exists():
            make_folder(home.directory, PRIVATE_FOLDER)
        make_folder(home.plans, PRIVATE_FOLDER)
        make_folder(home.outbox, PRIVATE_FOLDER)
        write_whole(home.directory / "sign.key", SigningKey.generate().pem(), private=True)
        write_whole(home.directory / "mark.key", secrets.token_bytes(KEY_BYTES), private=True)
        write_whole(home.schema_file, form_toml(read).encode())
        write_whole(home.settings_file, tomli_w.dumps(settings).encode(), private=True)
        write_registration(home)
        home.opened_ledger().__exit__(None, None, None)
        last(home)
    return home


def write_registration(home: SiteHome) -> None:
    """What a coordinator is to be given, as the site is now."""
    site = home.registration
    public = {**asdict(site), "schema": form_digest(home.schema)}
    write_whole(home.registration_file, (json.dumps(public, indent=2) + "\n").encode())
