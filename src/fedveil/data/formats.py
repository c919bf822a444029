"""The file formats of the image sets: idx (MNIST) and the binary batches of CIFAR-10.

The parsers check what they read even after the checksums, because they also serve a user's own files.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedveil.core.errors import FedveilError

Bytes = NDArray[np.uint8]

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes


def unpack(path: Path, content: bytes) -> bytes:
    """Decompress by the ending of the file's name; anything else is returned as it is."""
    try:
        match path.suffix:
            case ".gz":
                return gzip.decompress(content)
            case ".xz":
                return lzma.decompress(content)
            case _:
                return content
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise FedveilError(f"{path}: can't be decompressed ({error})") from None


def parse_idx(path: Path, content: bytes, dimensions: int) -> Bytes:
    """An idx file of unsigned bytes: two zeros, the type 8, the number of dimensions, the sizes, the data."""
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, 8, dimensions]):
        raise FedveilError(f"{path}: not an idx file of unsigned bytes with {dimensions} dimension(s)")
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], dtype=">u4"))
    expected = header + int(np.prod(shape, dtype=np.uint64))
    if len(content) != expected:
        raise FedveilError(f"{path}: {len(content):,} bytes where its header says {expected:,}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()


def parse_cifar(path: Path, content: bytes | bytearray) -> tuple[Bytes, Bytes]:
    """Images [N, 3, 32, 32] and labels [N] of binary CIFAR-10 batches, one or several after each other."""
    if not content or len(content) % CIFAR_RECORD:
        raise FedveilError(f"{path}: {len(content):,} bytes is not a whole number of {CIFAR_RECORD}-byte records")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, CIFAR_RECORD)
    labels = records[:, 0].copy()
    if labels.max() > 9:
        raise FedveilError(f"{path}: label {labels.max()} at record {labels.argmax()}, expected 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), labels
