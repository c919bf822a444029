"""Planted bugs of what is said: reports of norms, receipts, and noise that is taken off after it was measured."""

from __future__ import annotations

from mutant import Defence, Mutant, Patch

RECEIPTS, BOTH = frozenset({Defence.RECEIPTS}), frozenset({Defence.RECEIPTS, Defence.AUDIT})
AUDIT, TESTS = frozenset({Defence.AUDIT}), frozenset({Defence.TESTS})
GAUSSIAN, UPDATES, SERVER, CLIENT = "mechanisms/gaussian.py", "engine/updates.py", "engine/server.py", "engine/client.py"
SANITISER, RECEIPT = "engine/sanitiser.py", "engine/receipts.py"

ADDED = "source.add(purpose, addresses, sums, self.sum_std(rows))"
REPORTED = "source.add(Purpose.REPORT_NOISE, addresses, reports, self.reporter.std)"

REPORT_BUGS = [
    Mutant(
        name="no report noise, upload",
        bug="clients report their norms without noise",
        patches=(Patch(GAUSSIAN, REPORTED, "pass"),),
        scene="upload reports",
        audit="upload reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="no report noise, server",
        bug="the sum of the reports gets no noise",
        patches=(Patch(GAUSSIAN, REPORTED, "pass"),),
        scene="server reports",
        audit="server reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="half report noise, upload",
        bug="reports get half of their noise",
        patches=(Patch(GAUSSIAN, REPORTED, REPORTED.replace("self.reporter.std", "self.reporter.std / 2")),),
        scene="many reports",
        audit="upload reports",
        caught_by=BOTH,
    ),
    Mutant(
        name="report noise reused across rounds",
        bug="a client's reports have the same noise in every round",
        patches=(
            Patch(
                GAUSSIAN,
                REPORTED,
                REPORTED.replace("addresses,", "[Address(0, one.client) for one in addresses],"),
            ),
        ),
        scene="many reports",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="report noise reused across rounds, server",
        bug="the sum of the reports has the same noise in every round",
        patches=(Patch(GAUSSIAN, REPORTED, REPORTED.replace("addresses,", "[Address() for _ in addresses],")),),
        scene="server reports",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="report noise reused across clients",
        bug="all reports of a round have the same noise",
        patches=(Patch(GAUSSIAN, REPORTED, REPORTED.replace("addresses,", "[Address(one.round) for one in addresses],")),),
        scene="many reports",
        audit=None,
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="report noise taken off, upload",
        bug="the noise on reports is taken off after it was measured",
        patches=(Patch(UPDATES, "        reports=reports,\n", "        reports=None if reports is None else plain,\n"),),
        scene="upload reports",
        audit="upload reports",
        caught_by=AUDIT,
    ),
    Mutant(
        name="report noise taken off, server",
        bug="the noise on the sum of reports is taken off after it was measured",
        patches=(
            Patch(
                SERVER,
                "        confirmed &= memory.confirms_reports(tally.reports - plain, mechanism.reporter.std)\n",
                "        confirmed &= memory.confirms_reports(tally.reports - plain, mechanism.reporter.std)\n"
                "        tally.reports = plain\n",
            ),
        ),
        scene="server reports",
        audit="server reports",
        caught_by=AUDIT,
    ),
    Mutant(
        name="forged receipts, example",
        bug="gradients get no noise, and receipts say that they do",
        patches=(
            Patch(GAUSSIAN, ADDED, "pass"),
            Patch(SANITISER, "confirmed=confirmed[k] and self._bounded", "confirmed=True"),
        ),
        scene="rows",
        audit="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="forged receipts, upload",
        bug="updates get no noise, and receipts say that they do",
        patches=(
            Patch(GAUSSIAN, ADDED, "pass"),
            Patch(UPDATES, "Receipt(round, client, did, good and seen_well, draws)", "Receipt(round, client, did, True, draws)"),
        ),
        scene="upload",
        audit="upload",
        caught_by=AUDIT,
    ),
    Mutant(
        name="forged receipts, server",
        bug="the sum of updates gets no noise, and receipts say that it does",
        patches=(
            Patch(GAUSSIAN, ADDED, "pass"),
            Patch(SERVER, 'if not (confirmed and witness.confirmed(["server"])[0]):', "if False:"),
        ),
        scene="server",
        audit="server",
        caught_by=AUDIT,
    ),
    Mutant(
        name="receipts not checked",
        bug="gradients get a tenth of their noise, and nobody compares receipts",
        patches=(
            Patch(GAUSSIAN, ADDED, ADDED.replace("(rows)", "(rows) / 10")),
            Patch(RECEIPT, "        _check_receipt(expected[receipt.client", "        if False: _check_receipt(expected[receipt.client"),
        ),
        scene="rows",
        audit="rows",
        caught_by=AUDIT,
    ),
    Mutant(
        name="no receipt of one client",
        bug="one client's receipts are lost",
        patches=(Patch(SERVER, "self.receipts += upload.receipts", "self.receipts += upload.receipts if self.clients else ()"),),
        scene="rows",
        audit="rows",
        caught_by=RECEIPTS,
    ),
    Mutant(
        name="noise taken off, example",
        bug="the noise of a sum of gradients is taken off after it was measured",
        patches=(
            Patch(
                CLIENT,
                "return replace(sums, total=sanitiser.noised_sums(sums.total, noise, addresses).to(parameters.dtype))",
                "plain = sums.total.clone()\n"
                "        sanitiser.noised_sums(sums.total, noise, addresses)\n"
                "        return replace(sums, total=plain.to(parameters.dtype))",
            ),
        ),
        scene="rows",
        audit="rows",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off, upload",
        bug="the noise of an update is taken off after it was measured",
        patches=(
            Patch(
                UPDATES,
                "        updates=noisy.to(updates.dtype),\n        cells=whole_cells(noisy, did.sum_std) if did.adds_up and did.sum_std > 0 else None,",
                "        updates=clipped(updates, norms, mechanism, layout, rows=1),\n        cells=None,",
            ),
        ),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off on the way",
        bug="what the client sends is its update without noise, whatever was measured and observed on the client",
        patches=(
            Patch(CLIENT, "update=sent.updates[k],", "update=(parameters - broadcast.parameters)[k],"),
            Patch(CLIENT, "cells=None if sent.cells is None else sent.cells[k],", "cells=None,"),
        ),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off, cells",
        bug="the integers that are added up have no noise",
        patches=(
            Patch(
                UPDATES,
                "cells=whole_cells(noisy, did.sum_std) if",
                "cells=whole_cells(clipped(updates, norms, mechanism, layout, rows=1).double(), did.sum_std) if",
            ),
        ),
        scene="upload",
        audit="upload",
        caught_by=BOTH,
    ),
    Mutant(
        name="noise taken off, server",
        bug="the noise on the sum of updates is taken off before the model is made",
        patches=(
            Patch(
                SERVER,
                "    did = mechanism.declare(place=\"server\"",
                "    tally.sum = tally.sum.clone()\n    tally.sum[seen.some] = seen.values[0]\n    did = mechanism.declare(place=\"server\"",
            ),
        ),
        scene="server",
        audit="server",
        caught_by=BOTH,
    ),
]
