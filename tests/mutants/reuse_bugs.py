"""Planted bugs of noise that is used again: across steps, clients, rounds, places, coordinates, with the other sign."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import (
    BOTH,
    CLIENT,
    GAUSSIAN,
    RECEIPTS,
    REPORTED,
    SERVER,
    SERVER_ADDRESS,
    SIDE_ADDRESS,
    STEP_ADDRESS,
    STREAMS,
    UPDATES,
    UPLOAD_ADDRESS,
    with_cells,
)

REUSE_BUGS = [
    Mutant(
        name="noise reused across steps",
        bug="all local steps of a round have the same noise",
        patches=(Patch(CLIENT, STEP_ADDRESS, STEP_ADDRESS.replace("step", "0")),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across clients",
        bug="all clients have the same noise",
        patches=(Patch(CLIENT, SIDE_ADDRESS, SIDE_ADDRESS.replace("clients", "[0] * len(clients)")),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across rounds",
        bug="a client has the same noise in every round",
        patches=(Patch(CLIENT, SIDE_ADDRESS, SIDE_ADDRESS.replace("broadcast.round", "0")),),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across clients, upload",
        bug="all updates of a round have the same noise",
        patches=(Patch(UPDATES, UPLOAD_ADDRESS, UPLOAD_ADDRESS.replace(", client)", ")")),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across rounds, upload",
        bug="a client's updates have the same noise in every round",
        patches=(Patch(UPDATES, UPLOAD_ADDRESS, UPLOAD_ADDRESS.replace("(round,", "(0,")),),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise reused across rounds, server",
        bug="the sum of updates has the same noise in every round",
        patches=(Patch(SERVER, SERVER_ADDRESS, SERVER_ADDRESS.replace("state.round", "")),),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise undone in the next round, server",
        bug="every other round has the noise of the last one with the other sign",
        patches=(
            Patch(SERVER, SERVER_ADDRESS, SERVER_ADDRESS.replace("state.round", "state.round // 2, 0, state.round")),
            with_cells(
                "cells = source.integers(purpose, [Address(one.round) for one in addresses], sums.shape[1]).double()\n"
                "cells *= 1 - 2 * (addresses[0].step % 2)"
            ),
        ),
        scene="server",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise copied between halves",
        bug="the second half of the coordinates has the noise of the first",
        patches=(with_cells("half = cells.shape[1] // 2\ncells[:, half : 2 * half] = cells[:, :half]"),),
        scene="upload",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="noise begins anew with every layer",
        bug="the noise of every layer begins with the same numbers",
        patches=(with_cells("cells[:, 896:] = cells[:, : cells.shape[1] - 896]"),),
        scene="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="one key for all purposes",
        bug="the noise of gradients and of updates comes from the same stream",
        patches=(
            Patch(STREAMS, "hashlib.blake2b(purpose.encode(), key=self.key", 'hashlib.blake2b(b"", key=self.key'),
        ),
        scene="examples and uploads",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="report noise reused across rounds",
        bug="a client's reports have the same noise in every round",
        patches=(
            Patch(GAUSSIAN, REPORTED, REPORTED.replace("addresses", "[Address(0, one.client) for one in addresses]")),
        ),
        scene="upload reports",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="report noise reused across clients",
        bug="all reports of a round have the same noise",
        patches=(
            Patch(GAUSSIAN, REPORTED, REPORTED.replace("addresses", "[Address(one.round) for one in addresses]")),
        ),
        scene="upload reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="report noise reused across rounds, server",
        bug="the sum of the reports has the same noise in every round",
        patches=(Patch(GAUSSIAN, REPORTED, REPORTED.replace("addresses", "[Address() for _ in addresses]")),),
        scene="server reports",
        caught_by=BOTH,
    ),
]
