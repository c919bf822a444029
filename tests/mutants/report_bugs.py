"""Planted bugs of what is said: reports of norms, receipts, and noise that is taken off after it was measured."""

from __future__ import annotations

from mutant import Mutant, Patch
from source_lines import (
    AUDIT,
    BOTH,
    CLIENT,
    GAUSSIAN,
    NOISED,
    NOISED_SUMS,
    RECEIPTS,
    RECEIPTS_FILE,
    REPORTED,
    SANITISER,
    SERVER,
    UPDATES,
    noised,
    with_cells,
)

_REPORTS = [
    Mutant(
        name="no report noise, upload",
        bug="clients report their norms without noise",
        patches=(Patch(GAUSSIAN, REPORTED, "pass"),),
        scene="upload reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="no report noise, server",
        bug="the sum of the reports gets no noise",
        patches=(Patch(GAUSSIAN, REPORTED, "pass"),),
        scene="server reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="half report noise, upload",
        bug="reports get half of their noise",
        patches=(Patch(GAUSSIAN, REPORTED, REPORTED.replace("reporter.std", "reporter.std / 2")),),
        scene="upload reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="report noise taken off, upload",
        bug="the noise on reports is taken off after it was measured",
        patches=(
            Patch(UPDATES, "        reports=reports,\n", "        reports=None if reports is None else plain,\n"),
        ),
        scene="upload reports",
        caught_by=AUDIT,
    ),
    Mutant(
        name="report noise taken off, server",
        bug="the noise on the sum of reports is taken off after it was measured",
        patches=(
            Patch(
                SERVER,
                "tally.measured_reports, on_reports = tally.reports.clone(), (tally.reports - plain).unsqueeze(0)\n",
                "tally.measured_reports, on_reports = tally.reports.clone(), (tally.reports - plain).unsqueeze(0)\n"
                "        tally.reports = plain\n",
            ),
        ),
        scene="server reports",
        caught_by=BOTH,
    ),
]

_FORGED = [
    Mutant(
        name="forged receipts, example",
        bug="gradients get no noise, and receipts say that they do",
        patches=(
            with_cells("cells *= 0"),
            Patch(SANITISER, "noise and followed and self._bounded", "True"),
        ),
        scene="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="forged receipts, upload",
        bug="updates get no noise, and receipts say that they do",
        patches=(with_cells("cells *= 0"), Patch(UPDATES, "did, good and seen_well, draws", "did, True, draws")),
        scene="upload",
        caught_by=AUDIT,
    ),
    Mutant(
        name="forged receipts, server",
        bug="the sum of updates gets no noise, and receipts say that it does",
        patches=(
            with_cells("cells *= 0"),
            Patch(SERVER, 'if not (confirmed and witness.confirmed(["server"])[0]):', "if False:"),
        ),
        scene="server",
        caught_by=AUDIT,
    ),
    Mutant(
        name="receipts not compared",
        bug="gradients get a tenth of their noise, and nobody compares what receipts say",
        patches=(
            noised(NOISED.replace("(rows)", "(rows) / 10")),
            Patch(RECEIPTS_FILE, "for receipt in receipts:\n", "for receipt in ():\n"),
        ),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="a receipt is lost",
        bug="one client's receipts are lost",
        patches=(Patch(SERVER, "+= upload.receipts", "+= upload.receipts if self.clients else ()"),),
        scene="rows",
        caught_by=RECEIPTS,
    ),
]

_TAKEN_OFF = [
    Mutant(
        name="noise taken off, example",
        bug="the noise of a sum of gradients is taken off after it was measured",
        patches=(
            Patch(
                CLIENT,
                NOISED_SUMS,
                "plain = sums.total.clone()\n"
                "        sanitiser.noised_sums(sums.total, noise, addresses)\n"
                "        total = plain.to(parameters.dtype)",
            ),
        ),
        scene="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off, upload",
        bug="the noise of an update is taken off after it was measured",
        patches=(
            Patch(
                UPDATES,
                "updates=noisy.to(updates.dtype),",
                "updates=clipped(updates, norms, mechanism, layout, rows=1),",
            ),
            Patch(
                UPDATES,
                "cells=whole_cells(noisy, did.sum_std) if",
                "cells=whole_cells(clipped(updates, norms, mechanism, layout, rows=1).double(), did.sum_std) if",
            ),
        ),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off, integers",
        bug="the integers of an update, which are what is added up, have no noise",
        patches=(
            Patch(
                UPDATES,
                "cells=whole_cells(noisy, did.sum_std) if",
                "cells=whole_cells(clipped(updates, norms, mechanism, layout, rows=1).double(), did.sum_std) if",
            ),
        ),
        scene="upload",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="noise taken off, sending",
        bug="what is sent is the update without noise, whatever was measured and observed on the client",
        patches=(
            Patch(CLIENT, "update=sent.updates[k],", "update=(parameters - broadcast.parameters)[k],"),
            Patch(
                CLIENT,
                "cells=None if cells is None else cells[k],",
                "cells=((parameters - broadcast.parameters)[k].double()"
                " / grid_width(sent.receipts[k].did.sum_std)).round(),",
            ),
        ),
        scene="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off, server",
        bug="the noise on the sum of updates is taken off before the model is made",
        patches=(
            Patch(
                SERVER,
                "    tally.measured = witness.kept[0][0]\n",
                "    tally.measured = witness.kept[0][0]\n    tally.sum[seen.some] = seen.values[0]\n",
            ),
        ),
        scene="server",
        caught_by=BOTH,
    ),
]

REPORT_BUGS = _REPORTS + _FORGED + _TAKEN_OFF
