"""The directories from which NVFlare starts: one for the coordinator, one for each site, each made where it is used.

A kit holds its own key and certificate, the authority's certificate, where the coordinator is, and what NVFlare may do.
It may do nothing but carry bytes: nobody has a right to submit jobs, bring code, run commands or fetch logs; no job
could be started, since there is no launcher; and the list of classes that a job may use has fedveil's couriers alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.core.atomic import PRIVATE_FOLDER, make_folder, write_whole
from fedveil.core.errors import FedveilError
from fedveil.runtimes.tls_certificates import COORDINATOR, certificate_name, check_certificate, check_site_name

LARGEST_MESSAGE = 256 * 2**20
"""Bytes. What is larger is refused before memory is taken for it."""

COURIERS = {
    "site": "fedveil.runtimes.nvflare_couriers.SiteCourier",
    "coordinator": "fedveil.runtimes.nvflare_couriers.CoordinatorCourier",
}
_ROLES = ("project_admin", "org_admin", "lead", "member")
_RIGHTS = (
    "submit_job", "clone_job", "manage_job", "download_job", "view", "operate", "shell_commands", "byoc",
    "server-predeployed-flwr",
)  # fmt: skip
_RETRIED = 5.0
"""Seconds in which a piece of a message is sent again. What is lost for longer is asked for again, as a whole."""
_HEARTBEAT = 4
"""Seconds. A site whose connection was lost is known to be back after as long."""


@dataclass(frozen=True)
class Credentials:
    """Of one party: its key, which was made here, its certificate, and the authority's."""

    key_file: Path
    certificate: bytes
    authority: bytes

    @property
    def name(self) -> str:
        return certificate_name(self.certificate)


def write_site_kit(folder: Path, credentials: Credentials, *, federation: str, host: str, port: int) -> None:
    """What a site needs to reach the coordinator at this address."""
    name = check_site_name(credentials.name)
    startup = {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": federation,
                "service": {"target": f"{host}:{port}", "scheme": "grpc"},
                "identity": COORDINATOR,
            }
        ],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "connection_security": "mtls",
            "fqsn": name,
            "is_leaf": True,
            "maint_msg_timeout": 10.0,
            "client_register_interval": 1.0,
        },
    }
    resources = _resources("site", {}) | {"client": {"retry_timeout": 30}}
    _write(folder, credentials, "client", {"fed_client.json": startup}, resources)


def write_coordinator_kit(
    folder: Path, credentials: Credentials, *, federation: str, host: str, port: int, sites: tuple[str, ...]
) -> None:
    """What the coordinator needs to be reached at this address by these sites and by nobody else.

    A host of this machine alone (localhost, 127.0.0.1) is listened to alone; with another one, every address is.
    """
    if credentials.name != COORDINATOR:
        raise FedveilError(f"the coordinator's certificate is for {credentials.name!r}, not for {COORDINATOR!r}")
    startup = {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": federation,
                "service": {"target": f"{host}:{port}", "scheme": "grpc"},
                "admin_port": port,
                "ssl_private_key": "server.key",
                "ssl_cert": "server.crt",
                "ssl_root_cert": "rootCA.pem",
                "connection_security": "mtls",
                "auth_identity": COORDINATOR,
            }
        ],
    }
    jobs = folder.resolve() / "jobs"  # NVFlare takes no relative path
    resources = _resources("coordinator", {"sites": [check_site_name(site) for site in sites]}) | {
        "servers": [{"max_num_clients": len(sites), "heart_beat_timeout": 60, "admin_timeout": 10.0}],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {
                    "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage",
                    "args": {"root_dir": str(jobs / "snapshots"), "uri_root": "/"},
                },
            },
        },
    }
    # NVFlare's server does not start without a place for jobs. None can be submitted, and none could be launched.
    resources["components"] += [
        {
            "id": "job_scheduler",
            "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
            "args": {"max_jobs": 1},
        },
        {
            "id": "job_manager",
            "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
            "args": {"uri_root": str(jobs), "job_store_id": "job_store"},
        },
        {"id": "job_store", "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"},
    ]
    _write(folder, credentials, "server", {"fed_server.json": startup}, resources)


def kit_arguments(kit: Path) -> tuple[str, list[str]]:
    """Which of NVFlare's two programs a kit is for, and what it is started with."""
    if (kit / "startup" / "fed_server.json").exists():
        return "server", ["secure_train=true", "org=fedveil", "config_folder=config"]
    if not (kit / "startup" / "fed_client.json").exists():
        raise FedveilError(f"{kit}: not the directory of a coordinator or of a site")
    name = certificate_name((kit / "startup" / "client.crt").read_bytes())
    beat = f"heart_beat_interval={_HEARTBEAT}"
    return "client", ["secure_train=true", f"uid={name}", "org=fedveil", "config_folder=config", beat]


def _resources(role: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": sorted(COURIERS.values()),
        "allow_log_streaming": False,
        "components": [{"id": "fedveil", "path": COURIERS[role], "args": arguments}],
    }


def _write(
    folder: Path, credentials: Credentials, who: str, startup: dict[str, Any], resources: dict[str, Any]
) -> None:
    check_certificate(
        credentials.certificate,
        authority=credentials.authority,
        key_file=credentials.key_file,
        name=credentials.name,
    )
    make_folder(folder, PRIVATE_FOLDER)
    for name in ("startup", "local"):
        make_folder(folder / name, PRIVATE_FOLDER)
    write_whole(folder / "startup" / f"{who}.key", credentials.key_file.read_bytes(), private=True)
    write_whole(folder / "startup" / f"{who}.crt", credentials.certificate)
    write_whole(folder / "startup" / "rootCA.pem", credentials.authority)
    for name, content in startup.items():
        _write_json(folder / "startup" / name, content)
    _write_json(folder / "local" / "resources.json", resources)
    _write_json(folder / "local" / "authorization.json", _no_rights())
    _write_json(folder / "local" / "comm_config.json", _communication())
    _write_json(folder / "local" / "log_config.json", _logging())


def _no_rights() -> dict[str, Any]:
    """For no role any right: at a site it is the coordinator that says who asks, so no role can be believed."""
    return {
        "format_version": "1.0",
        "permissions": {role: dict.fromkeys(_RIGHTS, "none") for role in _ROLES},
    }


def _communication() -> dict[str, Any]:
    """Sizes that are bounded, no connections between sites, and nobody on this machine without a certificate."""
    return {
        "allow_adhoc_conns": False,
        "backbone_conn_gen": 1,
        "max_message_size": LARGEST_MESSAGE,
        "streaming_max_blob_size": LARGEST_MESSAGE,
        # NVFlare keeps every message that came, and a thread for each, for as long as it may be sent again.
        "streaming_retry_timeout": _RETRIED,
        "internal": {"scheme": "tcp", "resources": {"host": "127.0.0.1", "connection_security": "mtls"}},
    }


def _logging() -> dict[str, Any]:
    """One log, which stays here and does not grow without end."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
        "handlers": {
            "file": {
                "class": "logging.handlers.RotatingFileHandler",
                "level": "INFO",
                "formatter": "plain",
                "filename": "log.txt",
                "maxBytes": 5_000_000,
                "backupCount": 2,
            }
        },
        "loggers": {"root": {"level": "INFO", "handlers": ["file"]}},
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=2).encode(), private=True)
