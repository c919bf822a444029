"""Tensors in a file that carries a digest of itself, so that a flipped bit is noticed when it is read back.

The file is a safetensors file. Its one entry of metadata is JSON: the facts that belong to the tensors, and the digest.
(Safetensors writes several entries in an arbitrary order; the same content must give the same bytes.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from fedveil.core.deferred import tensor_files, torch

if TYPE_CHECKING:
    from torch import Tensor

_METADATA = "fedveil"


class TensorsDamaged(ValueError):
    """A file of tensors can't be read, or is not what was written."""


def digested(tensors: Mapping[str, Tensor], facts: Mapping[str, str] | None = None) -> bytes:
    """The content of a file with these tensors and facts, and a digest of both."""
    kept = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    known = dict(facts or {})
    stamp = {"digest": _digest(kept, known), "facts": known}
    return tensor_files.save(kept, metadata={_METADATA: json.dumps(stamp, sort_keys=True)})


def read_digested(path: Path, *, required: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and facts of such a file; `TensorsDamaged` where they are not those that were written.

    Files of older versions have no digest. They are read only where it is not `required`.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            metadata = dict(file.metadata() or {})
        if _METADATA not in metadata:
            if required:
                raise TensorsDamaged("it has no digest")
            return tensors, metadata
        stamp = json.loads(metadata[_METADATA])
        facts = {str(name): str(value) for name, value in stamp["facts"].items()}
        digest = stamp["digest"]
    except TensorsDamaged:
        raise
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TensorsDamaged(str(error) or type(error).__name__) from None
    if digest != _digest(tensors, facts):
        raise TensorsDamaged("its digest does not fit its content")
    return tensors, facts


def _digest(tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> str:
    """Over all names, types, shapes, numbers and facts; lengths are in it, so nothing can move from one to the next."""
    digest = hashlib.blake2b(digest_size=32)
    shapes = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    digest.update(json.dumps([shapes, dict(facts)], sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
