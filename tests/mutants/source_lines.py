"""Lines of the sources that several mutants change, and the ways in which they change them."""

from __future__ import annotations

from mutant import Defence, Patch

RECEIPTS, AUDIT, TESTS = (frozenset({defence}) for defence in Defence)
BOTH = RECEIPTS | AUDIT

CLIP, GAUSSIAN, NOISE = "mechanisms/clip.py", "mechanisms/gaussian.py", "mechanisms/noise.py"
CLIENT, NETWORK, SANITISER = "engine/client.py", "engine/fused/network.py", "engine/sanitiser.py"
THROUGH_STAGES = "engine/fused/through_stages.py"
UPDATES, SERVER, LOOP, RECEIPTS_FILE = "engine/updates.py", "engine/server.py", "engine/loop.py", "engine/receipts.py"
SERVER_STATE = "engine/server_state.py"
STREAMS, SITES, BATCHES, COHORTS = "core/streams.py", "engine/sites.py", "parts/batches.py", "parts/cohorts.py"

NOISED = "source.add(purpose, addresses, sums, self.sum_std(rows))"
NOISED_SUMS = "total = sanitiser.noised_sums(sums.total, noise, addresses).to(parameters.dtype)"
CLIPPED_UPLOAD = "noisy = clipped(updates, norms, mechanism, layout, rows=1).double()"
CLIPPED_AT_SERVER = "for update in clipped(updates, norms, mechanism, self.layout, self.most, self.declared):"
REPORTED = "source.add(Purpose.REPORT_NOISE, addresses, reports, self.reporter.std)"
STEP_ADDRESS = "addresses = side.at(step)"
SIDE_ADDRESS = "side = SideBySide(broadcast.round, clients)"
UPLOAD_ADDRESS = "addresses = [Address(round, client) for client in clients]\n    norms ="
SERVER_ADDRESS = "rows, addresses = tally.declared, [Address(state.round)]"


def indented(lines: str) -> str:
    """Lines that take the place of one inside `GaussianRound.add_to_sums`."""
    return lines.replace("\n", "\n" + 12 * " ")


def noised(lines: str) -> Patch:
    """Another way to noise sums, at all places."""
    return Patch(GAUSSIAN, NOISED, indented(lines))


def sized(purpose: str, factor: float) -> Patch:
    """Noise of another size at one place."""
    return noised(NOISED.replace("(rows)", f"(rows) * ({factor} if purpose is Purpose.{purpose} else 1)"))


def first_half(purpose: str, factor: float = 1.0) -> Patch:
    """Noise on the first half of the coordinates at one place."""
    return noised(
        f"if purpose is Purpose.{purpose}:\n    sums = sums[:, : sums.shape[1] // 2]\n"
        + NOISED.replace("(rows)", f"(rows) * {factor}")
    )


def with_cells(lines: str) -> Patch:
    """Integers as they are drawn, changed by some lines, then added on the grid as usual."""
    return noised(
        "import torch\n"
        "grid = self.sum_std(rows) / 2**24\n"
        "cells = source.integers(purpose, addresses, sums.shape[1]).double()\n"
        f"{lines}\n"
        "sums.copy_(((sums.double() / grid).round() + cells.round()) * grid)"
    )


RECEIPTS_OFF = (
    Patch(
        RECEIPTS_FILE,
        'bound that follows the norms.\n    """\n    expected',
        'bound that follows the norms.\n    """\n    return\n    expected',
    ),
    Patch(
        SERVER,
        'raise ReceiptMismatch(f"round {state.round}, server: what was measured on the sum is not as declared")',
        "pass",
    ),
    Patch(LOOP, 'raise ReceiptMismatch(f"round {state.round}: {odd}")', "pass"),
    Patch(
        LOOP,
        'raise ReceiptMismatch(f"round {before.round}: the model is not what the noisy sums make of the last one")',
        "pass",
    ),
)
"""Nobody compares anything with a receipt: what an audit sees by itself."""
