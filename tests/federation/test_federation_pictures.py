"""A federation of pictures: folders at sites, a network whose fixed features are computed there, the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federation_scene import Scene, policy
from PIL import Image
from safetensors.torch import load_file

from fedveil.core.signing import SigningKey
from fedveil.data.own_sites import from_sites
from fedveil.data.picture_format import PictureFormat
from fedveil.data.record_form import read_form
from fedveil.federation.coordinating import run_federation
from fedveil.federation.coordinator_home import CoordinatorHome
from fedveil.federation.planning import plan_of, read_validation, write_home
from fedveil.runs.run import run
from fedveil.site.approval import approve
from fedveil.site.home import make_site

CLASSES = ("dark", "light")
SIZES = {"north": 12, "south": 10}
SETTINGS: dict[str, Any] = {
    "seed": 5,
    "method": "fed-cdp-batch",
    "batch": {"kind": "poisson", "size": 4},
    "local": {"steps": 2, "rate": 0.5},
    "example": {"sigma": 1.0, "clip": {"bound": 1.0, "by": "flat"}},
    "privacy": {"delta": 1e-3},
    "stop": {"rounds": 2},
}


def write_pictures(folder: Path, number: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for place in range(number):
        light = place % 2
        picture = generator.integers(100 * light, 156 + 100 * light, (28, 28), dtype=np.uint8)
        home = folder / CLASSES[light]
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(home / f"{place:03d}.png")


def picture_scene(root: Path, settings: dict[str, Any]) -> Scene:
    (root / "form.toml").write_text(f"[pictures]\nheight = 28\nwidth = 28\ngrey = true\nclasses = {list(CLASSES)}\n")
    write_pictures(root / "public", 6, seed=9)
    sites = {}
    for seed, (name, size) in enumerate(SIZES.items()):
        write_pictures(root / name, size, seed)
        allowed = policy(rehearsal=True)
        sites[name] = make_site(
            root / "homes" / name, name=name, data=root / name, schema=root / "form.toml", policy=allowed
        )
    key, form = SigningKey.generate(), read_form(root / "form.toml")
    plan = plan_of(
        {**SETTINGS, **settings},
        name="pictures",
        sites=[home.registration for home in sites.values()],
        schema=form,
        validation=read_validation(root / "public", form),
        deadline=30.0,
        key=key,
    )
    for home in sites.values():
        approve(home, plan)
    coordinator = write_home(CoordinatorHome(root / "coordinator"), plan, key, root / "public")
    return Scene(root, plan, key, sites, coordinator)


@pytest.mark.parametrize("model", ["mlp", "scattering"])
def test_pictures_at_sites_end_in_the_bits_of_the_simulation(tmp_path: Path, model: str) -> None:
    scene = picture_scene(tmp_path, {"model": {"name": model}})
    with scene.serving() as transport:
        result = run_federation(scene.coordinator, transport)
    dataset = from_sites(
        {name: tmp_path / name for name in SIZES},
        name="pictures",
        classes=CLASSES,
        pictures=PictureFormat(height=28, width=28, grey=True),
        features="public",
        validation=tmp_path / "public",
        validation_records="public",
    )
    local = run(scene.plan.settings, out=tmp_path / "local", workers=1, dataset=dataset)
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (result.run, tmp_path / "local"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert result.accuracy == local.accuracy
