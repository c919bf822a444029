"""What this installation has, what is missing, what that disables, and the command that mends it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from fedveil.core.cores import usable_cores
from fedveil.data.known_sets import SETS
from fedveil.data.sources import data_directories, fetch_directory

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")

EXTRAS = {
    "tables": (("pandas", "pyarrow"), "DataFrames and Parquet files of your own; CSV files work without"),
    "federation": (("nvflare",), "trainings over real sites (fedveil federation, fedveil site)"),
    "tensorboard": (("tensorboard",), "fedveil run --log tensorboard"),
    "mlflow": (("mlflow",), "fedveil run --log mlflow"),
}
"""The optional parts: their packages, and what needs them."""

KERNELS = ("kernels", "layer_kernels")
"""What is compiled at installation where there is a compiler."""

OLDEST = (3, 11)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `disables` and `mend` are empty where it is as it should be."""

    name: str
    found: str
    well: bool
    disables: str = ""
    mend: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def findings_here() -> list[Finding]:
    """Everything, in the order in which it matters; nothing large is loaded."""
    return [_python(), _torch(), _cores(), _kernels(), *_sets(), _cache(), _browser(), *_extras()]


def _python() -> Finding:
    enough = sys.version_info >= OLDEST
    return Finding(
        "Python",
        platform.python_version(),
        enough,
        "" if enough else "everything",
        "" if enough else "install Python 3.11 or newer",
    )


def _torch() -> Finding:
    found = _version("torch")
    if found is None:
        return Finding("PyTorch", "missing", False, "training, attacks, audits", "pip install torch")
    return Finding("PyTorch", found, True)


def _cores() -> Finding:
    cores = usable_cores()
    return Finding("cores", f"{cores} usable of {os.cpu_count() or 1}", True)


def _kernels() -> Finding:
    """Without them the same bits are drawn by NumPy, only slower."""
    lacking = [name for name in KERNELS if find_spec(f"fedveil.native.{name}") is None]
    if not lacking:
        return Finding("native kernels", "built", True)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return Finding(
        "native kernels",
        f"not built: {', '.join(lacking)}; compiler: {compiler or 'none'}",
        False,
        "nothing; their twins in Python do the same, slower",
        "pip install --force-reinstall --no-deps fedveil" if compiler else "apt-get install gcc, then install again",
    )


def _sets() -> list[Finding]:
    found = []
    for name, one in SETS.items():
        lacking = len(one.missing_files())
        found.append(
            Finding(f"data set {name}", "here and sound", True)
            if not lacking
            else Finding(f"data set {name}", "not here", False, f"trainings on {name}", f"fedveil data fetch {name}")
        )
    return found


def _cache() -> Finding:
    place = fetch_directory()
    above = next(folder for folder in (place, *place.parents) if folder.exists())
    places = " and ".join(map(str, data_directories()))
    if os.access(above, os.W_OK):
        return Finding("data directory", places, True)
    return Finding(
        "data directory", f"{place} can't be written", False, "fetching data sets", "set XDG_CACHE_HOME or FEDVEIL_DATA"
    )


def _browser() -> Finding:
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is not None:
        return Finding("browser", found, True)
    return Finding(
        "browser",
        "none of " + ", ".join(BROWSERS),
        False,
        "opening reports on this machine; they are single files that can be copied",
        "apt-get install chromium",
    )


def _extras() -> list[Finding]:
    found = []
    for name, (packages, use) in EXTRAS.items():
        lacking = [package for package in packages if find_spec(package) is None]
        installed = ", ".join(f"{package} {_version(package) or ''}".strip() for package in packages)
        found.append(
            Finding(f"extra {name}", installed, True)
            if not lacking
            else Finding(f"extra {name}", "not installed", False, use, f"pip install 'fedveil[{name}]'")
        )
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
