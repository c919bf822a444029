"""A folder of pictures, with a folder for each class in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.data.picture_format import PictureFormat
from fedveil.data.raw_records import RawRecords

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def read_picture_folder(where: str, folder: Path, pictures: PictureFormat | None) -> RawRecords:
    """All pictures as bytes [N, C, height, width], labelled with the names of their folders.

    Without a format pictures must be of one size already, and keep their three colours.
    """
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise FedveilError(f"{where}: {folder} has no folder for each class, with the pictures in it")
    paths = [(path, one.name) for one in classes for path in sorted(one.iterdir()) if path.suffix.lower() in ENDINGS]
    if not paths:
        raise FedveilError(f"{where}: {folder} holds no pictures ({', '.join(ENDINGS)})")
    first = decoded_picture(where, paths[0][0], pictures)
    inputs = np.empty((len(paths), *first.shape), dtype=np.uint8)
    for number, (path, _) in enumerate(paths):
        decoded = decoded_picture(where, path, pictures)
        if decoded.shape != first.shape:
            sizes = ["×".join(map(str, one.shape[1:])) for one in (decoded, first)]
            raise FedveilError(
                f"{where}: {path} is {sizes[0]}, and {paths[0][0]} is {sizes[1]}; say to which height and width"
                " pictures are brought (pictures)"
            )
        inputs[number] = decoded
    return RawRecords(torch.from_numpy(inputs), np.array([name for _, name in paths], dtype=object))


def decoded_picture(where: str, path: Path, pictures: PictureFormat | None) -> NDArray[np.uint8]:
    """The bytes of one picture [C, height, width]."""
    from PIL import Image, UnidentifiedImageError  # not needed for tables

    try:
        with Image.open(path) as picture:
            decoded = picture.convert("L" if pictures is not None and pictures.grey else "RGB")
            if pictures is not None:
                decoded = decoded.resize((pictures.width, pictures.height), Image.Resampling.BOX)
            array = np.asarray(decoded, dtype=np.uint8)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise FedveilError(f"{where}: {path} is not a picture that can be read ({error})") from None
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
