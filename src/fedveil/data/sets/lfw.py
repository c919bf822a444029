"""Labeled Faces in the Wild: from 250×250 JPEG files to 32×32 faces.

The deep-funneled pictures have the face in the middle. The central 128×128 square holds the face from
forehead to chin with little background, and 128 = 4 × 32, so that each pixel of the result is the mean of
exactly 4×4 pixels (area resampling without any interpolation).
"""

from __future__ import annotations

import io
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sources
from fedveil.data.cache import cached
from fedveil.data.download import Patience, SourceFailed, download
from fedveil.data.download_progress import DownloadProgress, SilentDownload
from fedveil.data.named_set import ExampleArrays, NamedSet, Origin, RoughCosts, SplitArrays
from fedveil.data.origins import Members, archive_at, host_of
from fedveil.data.sources import Form, SourceFile
from fedveil.data.splits import stratified_split

# One line per picture, as `sha256sum` writes them; the checksum of this list stands for all 3,023 pictures.
LISTING = SourceFile((Form("lfw/SHA256SUMS", "0cb5840ca7bf13bbdc5e87d8ad125b9f3f9835080c18233ebb918d74a7574c9b"),))
_FOLDER = "lfw-deepfunneled"
_PICTURE, _CROP, _SIDE = 250, 128, 32

# The 62 people with at least 20 pictures, which are <Name>_0001.jpg … <Name>_NNNN.jpg.
# fmt: off
PICTURES_OF = {
    "Alejandro_Toledo": 39, "Alvaro_Uribe": 35, "Amelie_Mauresmo": 21, "Andre_Agassi": 36,
    "Angelina_Jolie": 20, "Ariel_Sharon": 77, "Arnold_Schwarzenegger": 42, "Atal_Bihari_Vajpayee": 24,
    "Bill_Clinton": 29, "Carlos_Menem": 21, "Colin_Powell": 236, "David_Beckham": 31,
    "Donald_Rumsfeld": 121, "George_Robertson": 22, "George_W_Bush": 530, "Gerhard_Schroeder": 109,
    "Gloria_Macapagal_Arroyo": 44, "Gray_Davis": 26, "Guillermo_Coria": 30, "Hamid_Karzai": 22,
    "Hans_Blix": 39, "Hugo_Chavez": 71, "Igor_Ivanov": 20, "Jack_Straw": 28, "Jacques_Chirac": 52,
    "Jean_Chretien": 55, "Jennifer_Aniston": 21, "Jennifer_Capriati": 42, "Jennifer_Lopez": 21,
    "Jeremy_Greenstock": 24, "Jiang_Zemin": 20, "John_Ashcroft": 53, "John_Negroponte": 31,
    "Jose_Maria_Aznar": 23, "Juan_Carlos_Ferrero": 28, "Junichiro_Koizumi": 60, "Kofi_Annan": 32,
    "Laura_Bush": 41, "Lindsay_Davenport": 22, "Lleyton_Hewitt": 41, "Luiz_Inacio_Lula_da_Silva": 48,
    "Mahmoud_Abbas": 29, "Megawati_Sukarnoputri": 33, "Michael_Bloomberg": 20, "Naomi_Watts": 22,
    "Nestor_Kirchner": 37, "Paul_Bremer": 20, "Pete_Sampras": 22, "Recep_Tayyip_Erdogan": 30,
    "Ricardo_Lagos": 27, "Roh_Moo-hyun": 32, "Rudolph_Giuliani": 26, "Saddam_Hussein": 23,
    "Serena_Williams": 52, "Silvio_Berlusconi": 33, "Tiger_Woods": 23, "Tom_Daschle": 25, "Tom_Ridge": 33,
    "Tony_Blair": 144, "Vicente_Fox": 32, "Vladimir_Putin": 49, "Winona_Ryder": 24,
}
# fmt: on


def picture_paths() -> list[str]:
    """All 3,023 pictures below the `lfw` folder, in the order of SHA256SUMS."""
    return [
        f"{_FOLDER}/{person}/{person}_{number:04d}.jpg"
        for person, count in PICTURES_OF.items()
        for number in range(1, count + 1)
    ]


def picture_sources() -> list[SourceFile]:
    """The pictures as files with known checksums, from the checked list that lies beside them."""
    listing = sources.read_source("lfw", LISTING)
    lines = (line.split(maxsplit=1) for line in listing.content.decode().splitlines())
    return [SourceFile((Form(f"lfw/{path}", digest),)) for digest, path in lines]


def _decode_all() -> bytes:
    def one(source: SourceFile) -> bytes:
        file = sources.read_source("lfw", source)
        return crop_face(file.path, file.content)

    with ThreadPoolExecutor() as pool:
        return b"".join(pool.map(one, picture_sources()))


def crop_face(path: Path, content: bytes) -> bytes:
    """Decode, take the middle, average 4×4 pixels; colour planes first."""
    from PIL import Image  # only needed here, and every command reads this module

    try:
        with Image.open(io.BytesIO(content)) as opened:
            if opened.size != (_PICTURE, _PICTURE):  # before it is decoded: a few bytes can unfold to gigabytes
                width, height = opened.size
                raise FedveilError(f"{path}: {width}×{height} pixels, expected {_PICTURE}×{_PICTURE}")
            picture = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FedveilError(f"{path}: not a readable picture ({error})") from None
    edge = (_PICTURE - _CROP) // 2
    small = picture.reduce(_CROP // _SIDE, box=(edge, edge, edge + _CROP, edge + _CROP))
    return np.asarray(small).transpose(2, 0, 1).tobytes()


def keep_faces(_: NamedSet, members: Members) -> None:
    """Keep the pictures of the 62 people, if all of them together have the expected checksum."""
    wanted = {Path(path).name: path for path in picture_paths()}
    pictures = {wanted[Path(member).name]: content for member, content in members if Path(member).name in wanted}
    _store_faces(pictures)


def pictures_below(address: str) -> Origin:
    """A web folder with one folder of pictures per person."""

    def take(_: NamedSet, progress: DownloadProgress) -> None:
        paths = picture_paths()
        parts = sources.fetch_directory() / "lfw" / "parts"

        def one(path: str) -> tuple[str, bytes]:
            part = parts / Path(path).name
            if not part.exists():
                arriving = part.with_suffix(".part")
                download(f"{address}/{path.removeprefix(_FOLDER + '/')}", arriving, path, SilentDownload(), patience)
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

    return Origin(host_of(address), take)


def _store_faces(pictures: dict[str, bytes]) -> None:
    lines = [f"{sources.sha256_of(pictures[path])}  {path}\n" for path in sorted(pictures)]
    listing = "".join(lines).encode()
    form = LISTING.forms[0]
    if sources.sha256_of(listing) != form.sha256:
        raise SourceFailed("the pictures are not the expected ones")
    for path, content in pictures.items():
        sources.store(f"lfw/{path}", content)
    sources.store(form.path, listing)


def _load() -> SplitArrays:
    """People in alphabetical order are the labels."""
    labels = np.repeat(np.arange(len(PICTURES_OF)), list(PICTURES_OF.values()))
    shape = (len(labels), 3, _SIDE, _SIDE)
    key = f"{LISTING.forms[0].sha256} crop {_CROP} reduce {_SIDE}"
    content = cached("lfw", key, int(np.prod(shape)), _decode_all)
    everything = ExampleArrays(np.frombuffer(content, dtype=np.uint8).reshape(shape), labels)
    train, validation = stratified_split("lfw", labels, 756)
    return SplitArrays(everything.pick(train), everything.pick(validation))


# Two convolutions and one dense layer, as the paper says, with strides instead of pooling.
_NETWORK = {"channels": [32, 64], "kernel": 5, "padding": 2, "strides": [2, 2], "pools": [1, 1]}

LFW = NamedSet(
    name="lfw",
    description="faces of 62 people, 32×32 colour",
    class_names=tuple(name.replace("_", " ") for name in PICTURES_OF),
    input_shape=(3, _SIDE, _SIDE),
    files=(LISTING,),
    more_files=picture_sources,
    origins=(
        archive_at("https://vis-www.cs.umass.edu/lfw/lfw-deepfunneled.tgz", keep_faces),
        pictures_below(
            "https://raw.githubusercontent.com/umass-vis-lfw/umass-vis-lfw.github.io/"
            "2a620cd8cceb10430f8c7012fe9fa5f0837759e9/images_deepfunneled"
        ),
    ),
    load=_load,
    task={
        "data": {"clients": 100, "records": 300, "partition": {"kind": "shards", "per_client": 10}},
        "model": {"name": "cnn", "options": _NETWORK},
        "cohort": {"kind": "fixed", "size": 50},
        "batch": {"kind": "partition", "size": 3},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 60},
    },
    costs=RoughCosts(gradient_microseconds=500.0, evaluation_seconds=0.3, attack_seconds=6.0),
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
)
