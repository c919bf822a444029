"""Getting the files of a data set, from the first of its origins that has them."""

from __future__ import annotations

from fedveil.core.errors import FedveilError
from fedveil.data.download import SourceFailed
from fedveil.data.download_progress import DownloadProgress, SilentDownload
from fedveil.data.known_sets import known_set
from fedveil.data.sources import fetch_directory


def available(name: str) -> bool:
    """Whether every file of a data set is here and sound."""
    return not known_set(name).missing_files()


def fetch(name: str, progress: DownloadProgress | None = None) -> None:
    """Make a data set available; what is here and sound already isn't fetched again."""
    wanted = known_set(name)
    progress = progress or SilentDownload()
    tried = []
    try:
        for origin in wanted.origins:
            if available(name):
                break
            progress.say(f"{name}: trying {origin.name}")
            try:
                origin.take(wanted, progress)
            except SourceFailed as failure:
                tried.append(f"{origin.name}: {failure}")
                progress.say(f"{name}: {tried[-1]}")
        if not available(name):
            raise FedveilError(f"data set '{name}' can't be fetched; tried {'; '.join(tried)}")
    except OSError as error:
        raise FedveilError(f"{error.filename or fetch_directory()}: {error.strerror}") from None
    progress.say(f"{name}: complete")
