"""CIFAR-10: small photographs, in binary batches of 10,000. The split keeps the batches' order.

Decompressing takes seconds, so the records are kept decoded in the cache.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sources
from fedveil.data.cache import cached
from fedveil.data.named_set import Bytes, ExampleArrays, NamedSet, RoughCosts, SplitArrays
from fedveil.data.origins import archive_at, keep_by_checksum
from fedveil.data.sources import Form, SourceFile

CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes


def _batch(name: str, plain: str, packed: str) -> SourceFile:
    return SourceFile((Form(f"cifar10/{name}", plain), Form(f"cifar10/{name}.xz", packed)))


_FILES = (
    _batch(
        "data_batch_1.bin",
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "d5de7683d3f827a5b44cc75966e019999d0781c69e5bfecaa9de8f927fc9b821",
    ),
    _batch(
        "data_batch_2.bin",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "5b187343b57341c2b066ceee964e3481a496136f2460a4ae76f237014b38b69c",
    ),
    _batch(
        "data_batch_3.bin",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "0ed5710714413aefe35b4428c23d1bac3e7a4450ec6659213de5296fab4d4e84",
    ),
    _batch(
        "data_batch_4.bin",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "704bae5cf5360e26e8631f05e3bc75e807e2a040ece7385919eaab8608e48b57",
    ),
    _batch(
        "data_batch_5.bin",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "6f7f8d25d795532348c38e7417fc88f91898c2281bbc6ffbf424e9392c1807cf",
    ),
    _batch(
        "test_batch.bin",
        "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        "6f98fa4aa6bc45118bc106e07a8e07eb403609364ddaca1ee739d9127c68b291",
    ),
)


def parse_cifar(path: Path, content: bytes | bytearray) -> tuple[Bytes, Bytes]:
    """Images [N, 3, 32, 32] and labels [N] of binary CIFAR-10 batches, one or several after each other."""
    if not content or len(content) % CIFAR_RECORD:
        raise FedveilError(f"{path}: {len(content):,} bytes is not a whole number of {CIFAR_RECORD}-byte records")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, CIFAR_RECORD)
    labels = records[:, 0].copy()
    if labels.max() > 9:
        raise FedveilError(f"{path}: label {labels.max()} at record {labels.argmax()}, expected 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), labels


def _load() -> SplitArrays:
    key = " ".join(source.forms[0].sha256 for source in _FILES)
    content = cached("cifar10", key, 60_000 * CIFAR_RECORD, _decompress)
    everything = ExampleArrays(*parse_cifar(sources.fetch_directory() / "cifar10", content))
    return SplitArrays(
        everything.pick(slice(0, 40_000)),
        everything.pick(slice(40_000, 50_000)),
        everything.pick(slice(50_000, 60_000)),
    )


def _decompress() -> bytes:
    def one(source: SourceFile) -> bytes:
        file = sources.read_source("cifar10", source)
        return sources.unpack(file.path, file.content)

    with ThreadPoolExecutor() as pool:
        return b"".join(pool.map(one, _FILES))


# Two convolutions and one dense layer, as the paper says, with pooling and centred inputs: it overfits less.
_NETWORK = {"channels": [24, 48], "kernel": 3, "padding": 1, "strides": [1, 1], "pools": [2, 2], "centre": True}

CIFAR10 = NamedSet(
    name="cifar10",
    description="small photographs of ten kinds of things, 32×32 colour",
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    input_shape=(3, 32, 32),
    files=_FILES,
    origins=(archive_at("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", keep_by_checksum),),
    load=_load,
    task={
        "data": {"clients": 100, "records": 400, "partition": {"kind": "shards", "per_client": 2}},
        "model": {"name": "cnn", "options": _NETWORK},
        "cohort": {"kind": "fixed", "size": 50},
        "batch": {"kind": "partition", "size": 4},
        "local": {"steps": 100, "rate": 0.05},
        "stop": {"rounds": 100},
    },
    costs=RoughCosts(gradient_microseconds=450.0, evaluation_seconds=1.5),
    features=Openness.PUBLIC,
    validation_records=Openness.PUBLIC,
)
