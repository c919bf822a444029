"""A scene whose parties have certificates and kits, so that they can be processes of their own over mutual TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from federation_scene import Scene, make_scene

from fedveil.federation.connecting import LOOPBACK, invite
from fedveil.runtimes.child_processes import free_port
from fedveil.runtimes.invitation import Invitation, read_invitation
from fedveil.site.connection import add_request, connect


def invited(scene: Scene) -> dict[str, Invitation]:
    for home in scene.sites.values():
        add_request(home)
    registrations = [home.registration_file for home in scene.sites.values()]
    paths = invite(scene.coordinator, registrations, LOOPBACK[0], free_port())
    return {path.stem: read_invitation(path) for path in paths}


def connected_scene(root: Path, settings: dict[str, Any], **options: Any) -> Scene:
    """`make_scene`, with its plan agreed to, and everybody ready to be started."""
    scene = make_scene(root, settings, **options)
    for name, invitation in invited(scene).items():
        connect(scene.sites[name], invitation)
    return scene
