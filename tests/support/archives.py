"""Archives made in memory."""

from __future__ import annotations

import io
import tarfile


def tar(members: dict[str, bytes]) -> bytes:
    """A compressed archive of these members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
