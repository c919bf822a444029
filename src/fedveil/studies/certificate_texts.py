"""What a certificate and a report say in sentences beside their numbers: trust, what is not covered, first notices."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.certificate.document import Notice, NoticeKind
from fedveil.core.guarantee import SEEDED, CaveatKind, Guarantee
from fedveil.core.verdicts import Verdict
from fedveil.report.model.evidence_facts import AuditFacts
from fedveil.report.model.run_facts import Status
from fedveil.runs.read import Reading

EVERYWHERE = (
    "The machines that train run this software unchanged; receipts are made by the code that adds the noise.",
    "Randomness of the operating system can't be predicted, and AES-256 can't be told from random bits.",
)
BY_PLACE = {
    "example": "Each client clips and adds noise itself, before anything leaves it; the server need not be trusted.",
    "upload": "Each client clips its update and adds noise itself, before it leaves; the server need not be trusted.",
    "server": "The server adds the noise: it sees every client's update without noise, and must keep it to itself.",
}
BY_CAVEAT = {
    CaveatKind.HIDDEN_DRAW: "Who takes part in a round is not made known to those whose ε counts on it.",
    CaveatKind.MEAN_OF_DRAWS: "Who takes part is drawn as declared, and nobody is left out of the draw by a budget.",
    CaveatKind.PLAIN_SUM: "Of a round nothing is seen but the plain sum over its cohort.",
    CaveatKind.FULL_COHORTS: "A round with too few candidates does not run.",
    CaveatKind.ANSWERS: "Whether a site answers in time does not depend on its records.",
    CaveatKind.OTHERS_NOISE: "The other clients of a cohort add their noise, and keep it to themselves.",
    CaveatKind.NO_COPIES: "No record is held by more than one client.",
    CaveatKind.PUBLIC_COUNTS: "How many records each client holds may be known to everybody.",
}
STANDING = (
    "How many records each client holds, and who took part, as far as the server sees it.",
    "A person with several records: what is said of one person's record speaks of one of them.",
    "Other trainings on the same records, also those that were made to choose settings: their ε adds up.",
    "What a model says about people in general: it may be used to guess something about somebody who never took part.",
    "Whatever is done with the records outside of this training.",
)


def trust_sentences(places: Sequence[str], cells: Sequence[Guarantee]) -> tuple[str, ...]:
    """Whom the finite cells rely on, and for what."""
    kinds = {caveat.kind for cell in cells if cell.finite for caveat in cell.caveats}
    said = [BY_PLACE[place] for place in places if place in BY_PLACE]
    return (*EVERYWHERE, *said, *(text for kind, text in BY_CAVEAT.items() if kind in kinds))


def uncovered_sentences(cells: Sequence[Guarantee]) -> tuple[str, ...]:
    """What no ε of the table covers."""
    own = dict.fromkeys(caveat.text for cell in cells for caveat in cell.caveats if caveat.kind.uncovered)
    return (*(f"{text[:1].upper()}{text[1:]}." for text in own), *STANDING)


def notices_of(
    read: Reading, cells: Sequence[Guarantee], audits: Sequence[AuditFacts], *, diverged: bool
) -> tuple[Notice, ...]:
    """What must be known before any number, the worst first."""
    notices = []
    if read.spec.seed is not None:
        notices.append(Notice(NoticeKind.SEEDED, "seeded: whoever has the seed can take the noise off again"))
    if any(audit.verdict is Verdict.CONTRADICTED for audit in audits):
        notices.append(Notice(NoticeKind.BROKEN, "an audit has contradicted the promise"))
    voiding = dict.fromkeys(
        caveat for cell in cells if cell.finite for caveat in cell.caveats if caveat.kind.voids and caveat != SEEDED
    )
    notices += [Notice(NoticeKind.NOT_PRIVATE, caveat.text) for caveat in voiding]
    if not any(cell.finite for cell in cells):
        notices.append(Notice(NoticeKind.NOTHING_PROMISED, "every ε is ∞: nothing is promised to anybody"))
    if read.status.state != "finished":
        notices.append(Notice(NoticeKind.UNFINISHED, _how_far(read.status)))
    if diverged:
        notices.append(Notice(NoticeKind.DIVERGED, "the training diverged: the model is worse than any guess"))
    notices += [Notice(NoticeKind.UNREAD, problem) for problem in read.problems]
    return tuple(notices)


def _how_far(status: Status) -> str:
    rounds = f"{status.published} of {status.planned} rounds are published"
    return f"{rounds}; what further rounds cost is promised and not yet spent"
