"""Labeled Faces in the Wild: from 250×250 JPEG files to 32×32 faces.

The deep-funneled pictures have the face in the middle. The central 128×128 square holds the face from
forehead to chin with little background, and 128 = 4 × 32, so that each pixel of the result is the mean of
exactly 4×4 pixels (area resampling without any interpolation).
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from fedveil.core.errors import FedveilError
from fedveil.data import sources
from fedveil.data.cache import cached
from fedveil.data.dealing import Integers
from fedveil.data.formats import Bytes

FOLDER = "lfw-deepfunneled"
PICTURE, CROP, SIDE = 250, 128, 32

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
        f"{FOLDER}/{person}/{person}_{number:04d}.jpg"
        for person, count in PICTURES_OF.items()
        for number in range(1, count + 1)
    ]


def load_faces() -> tuple[Bytes, Integers]:
    """Pictures [3023, 3, 32, 32] and the number of the person, people in alphabetical order."""
    labels = np.repeat(np.arange(len(PICTURES_OF)), list(PICTURES_OF.values()))
    listing = sources.LFW[0].forms[0].sha256
    shape = (len(labels), 3, SIDE, SIDE)
    content = cached("lfw", f"{listing} crop {CROP} reduce {SIDE}", int(np.prod(shape)), _decode_all)
    return np.frombuffer(content, dtype=np.uint8).reshape(shape), labels


def picture_sources() -> list[sources.SourceFile]:
    """The pictures as files with known checksums, from the checked list that lies beside them."""
    listing = sources.read_source("lfw", sources.LFW[0])
    lines = (line.split(maxsplit=1) for line in listing.content.decode().splitlines())
    return [sources.SourceFile((sources.Form(f"lfw/{path}", digest),)) for digest, path in lines]


def _decode_all() -> bytes:
    def one(source: sources.SourceFile) -> bytes:
        found = sources.read_source("lfw", source)
        return crop_face(found.path, found.content)

    with ThreadPoolExecutor() as pool:
        return b"".join(pool.map(one, picture_sources()))


def crop_face(path: Path, content: bytes) -> bytes:
    """Decode, take the middle, average 4×4 pixels; colour planes first."""
    try:
        with Image.open(io.BytesIO(content)) as opened:
            picture = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise FedveilError(f"{path}: not a readable picture ({error})") from None
    if picture.size != (PICTURE, PICTURE):
        raise FedveilError(f"{path}: {picture.width}×{picture.height} pixels, expected {PICTURE}×{PICTURE}")
    edge = (PICTURE - CROP) // 2
    small = picture.reduce(CROP // SIDE, box=(edge, edge, edge + CROP, edge + CROP))
    return np.asarray(small).transpose(2, 0, 1).tobytes()
