"""Where the files of the data sets are, and proof that they are the right ones.

Every file is known by its SHA-256 and nothing is parsed before it has been checked, so a truncated download
or a changed file is found here and not as a strange result later. Files are looked for in `$FEDVEIL_DATA`
first and then in the user's cache directory; a damaged copy in one place doesn't hide a good one in the
other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_dir

from fedveil.core.atomic import write_whole
from fedveil.core.errors import FedveilError


@dataclass(frozen=True)
class Form:
    """One way a file may be stored: its path below the data directory, and its SHA-256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class SourceFile:
    """A file that a data set needs, in any one of its forms (compressed or plain)."""

    forms: tuple[Form, ...]


def _either(first: Form, second: Form) -> SourceFile:
    return SourceFile((first, second))


def _mnist(name: str, packed: str, plain: str) -> SourceFile:
    return _either(Form(f"mnist/{name}.gz", packed), Form(f"mnist/{name}", plain))


def _cifar(name: str, plain: str, packed: str) -> SourceFile:
    return _either(Form(f"cifar10/{name}", plain), Form(f"cifar10/{name}.xz", packed))


MNIST = (
    _mnist(
        "train-images-idx3-ubyte",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _mnist(
        "train-labels-idx1-ubyte",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    _mnist(
        "t10k-images-idx3-ubyte",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _mnist(
        "t10k-labels-idx1-ubyte",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)

CIFAR10 = (
    _cifar(
        "data_batch_1.bin",
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "d5de7683d3f827a5b44cc75966e019999d0781c69e5bfecaa9de8f927fc9b821",
    ),
    _cifar(
        "data_batch_2.bin",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "5b187343b57341c2b066ceee964e3481a496136f2460a4ae76f237014b38b69c",
    ),
    _cifar(
        "data_batch_3.bin",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "0ed5710714413aefe35b4428c23d1bac3e7a4450ec6659213de5296fab4d4e84",
    ),
    _cifar(
        "data_batch_4.bin",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "704bae5cf5360e26e8631f05e3bc75e807e2a040ece7385919eaab8608e48b57",
    ),
    _cifar(
        "data_batch_5.bin",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "6f7f8d25d795532348c38e7417fc88f91898c2281bbc6ffbf424e9392c1807cf",
    ),
    _cifar(
        "test_batch.bin",
        "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        "6f98fa4aa6bc45118bc106e07a8e07eb403609364ddaca1ee739d9127c68b291",
    ),
)

# One line per image, as `sha256sum` writes them; the checksum of this list stands for all 3,023 images.
LFW = (SourceFile((Form("lfw/SHA256SUMS", "0cb5840ca7bf13bbdc5e87d8ad125b9f3f9835080c18233ebb918d74a7574c9b"),)),)

ADULT = (
    SourceFile((Form("adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),)),
    SourceFile((Form("adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),)),
)

CATALOGUE: dict[str, tuple[SourceFile, ...]] = {
    "mnist": MNIST,
    "cifar10": CIFAR10,
    "lfw": LFW,
    "adult": ADULT,
    "cancer": (),
}


@dataclass(frozen=True)
class Found:
    """A file whose checksum is right."""

    path: Path
    content: bytes


def cache_directory() -> Path:
    """The user's own directory for what can be fetched or computed again."""
    return Path(user_cache_dir("fedveil"))


def fetch_directory() -> Path:
    """Where `fetch` puts files: always the user's cache, as `$FEDVEIL_DATA` may be shared or read-only."""
    return cache_directory() / "data"


def data_directories() -> tuple[Path, ...]:
    """The places where files are looked for, the first one first."""
    chosen = os.environ.get("FEDVEIL_DATA")
    return (Path(chosen).expanduser(), fetch_directory()) if chosen else (fetch_directory(),)


def check_name(name: str) -> None:
    """Refuse a data set that isn't in the catalogue."""
    if name not in CATALOGUE:
        raise FedveilError(
            f"unknown data set '{name}': choose one of {', '.join(sorted(CATALOGUE))}; records of your own are given in"
            " Python, as dataset=…"
        )


def sha256_of(content: bytes | bytearray | memoryview) -> str:
    """The SHA-256 as it is written in lists of checksums."""
    return hashlib.sha256(content).hexdigest()


def read_source(name: str, source: SourceFile) -> Found:
    """The first good copy of a file, or one line that says what is wrong and how to mend it."""
    complaints = []
    for path, form in candidates(source):
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            complaints.append(FedveilError(f"{path}: can't be read ({error.strerror})"))
            continue
        if sha256_of(content) == form.sha256:
            return Found(path, content)
        complaints.append(damaged(name, path, len(content)))
    raise complaints[0] if complaints else missing(name, source.forms[0].path)


def store(path: str, content: bytes) -> None:
    """Keep a file in the user's cache, under its path below a data directory."""
    target = fetch_directory() / path
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)


def candidates(source: SourceFile) -> Iterator[tuple[Path, Form]]:
    """Every path where a file may be, in the order of lookup."""
    for directory in data_directories():
        for form in source.forms:
            yield directory / form.path, form


def damaged(name: str, path: Path, size: int) -> FedveilError:
    """The complaint about a file with the wrong checksum."""
    return FedveilError(
        f"{path}: damaged or incomplete ({size:,} bytes, wrong SHA-256); run: fedveil data fetch {name}"
    )


def missing(name: str, wanted: str) -> FedveilError:
    """The complaint about a file that is nowhere."""
    places = " and ".join(str(directory) for directory in data_directories())
    return FedveilError(f"data set '{name}': no {wanted} in {places}; run: fedveil data fetch {name}")
