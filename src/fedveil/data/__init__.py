"""Data sets, where they come from, and how they are divided over clients."""

from fedveil.data.dataset import Dataset, Examples, from_tensors, load, official_split, to_float
from fedveil.data.fetching import available, fetch
from fedveil.data.partitions import (
    PARTITIONS,
    Dirichlet,
    FullCopy,
    Partition,
    PartitionKind,
    Random,
    Shards,
    make_partition,
)

__all__ = [
    "PARTITIONS",
    "Dataset",
    "Dirichlet",
    "Examples",
    "FullCopy",
    "Partition",
    "PartitionKind",
    "Random",
    "Shards",
    "available",
    "fetch",
    "from_tensors",
    "load",
    "make_partition",
    "official_split",
    "to_float",
]
