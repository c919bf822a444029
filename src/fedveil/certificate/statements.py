"""The sentence of a certificate that follows from its cells: it is made again when a certificate is checked."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.certificate.document import Notice, NoticeKind
from fedveil.certificate.stated_bounds import CertifiedCell
from fedveil.report.model.verdict_sentence import CellRisk, verdict_sentence

_STATES = {
    NoticeKind.UNFINISHED: "Unfinished",
    NoticeKind.DIVERGED: "Diverged",
    NoticeKind.UNREAD: "Not wholly readable",
}


def cell_risk(cell: CertifiedCell) -> CellRisk:
    """What the verdict needs of a cell: of all copies of a record together, because a person has one."""
    bound, kinds = cell.copies or cell.certified, {remark.kind for remark in cell.caveats}
    return CellRisk(
        cell.unit,
        cell.view,
        bound.relation,
        None if bound.risk is None else bound.risk.right_guess,
        averaged=any(kind.averages for kind in kinds),
        void=any(kind.voids for kind in kinds),
    )


def certificate_verdict(cells: Sequence[CertifiedCell], attention: Sequence[Notice]) -> str:
    """The sentence for these cells and notices."""
    voided = [notice.text for notice in attention if notice.kind.voids and notice.kind != NoticeKind.NOTHING_PROMISED]
    states = [_STATES[notice.kind] for notice in attention if notice.kind in _STATES]
    return verdict_sentence(
        [cell_risk(cell) for cell in cells],
        not_private="; ".join(voided).rstrip(".") or None,
        state=" and ".join(dict.fromkeys(states)) or None,
    )
