"""A federation on the page of its run: what was agreed to, who answered, who was missing."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.report.model.federation_facts import FederationFacts, ParticipantFacts
from fedveil.report.model.number_texts import delta_text, epsilon_text
from fedveil.report.page.markup import Markup, join, paragraph, table, tag

MOST_MISSED = 8
"""So many missed rounds of a site are named."""


def federation_section(facts: FederationFacts) -> Markup:
    """The plan, and a row for each site."""
    quorum = "all who are drawn have answered" if facts.quorum is None else f"{facts.quorum} or more have answered"
    headings = ["Site", "Records", "Answers", "Missed rounds", "Last problem", "ε at most, counting on nobody"]
    rows = [_row(one) for one in facts.participants]
    facts_listed = [
        ("Plan", facts.plan),
        ("Its hash, which every site agreed to", facts.hash),
        ("The coordinator's key", facts.coordinator),
        ("A round is published when", quorum),
        ("A site has to answer within", f"{facts.deadline:g} s"),
    ]
    return join(
        [
            paragraph(
                "The clients of this training are sites with records, keys and ledgers of their own. What stands here"
                " is what the coordinator saw; what a site has paid over all plans stands in its own report."
            ),
            tag(
                "dl",
                *(tag("div", tag("dt", key), tag("dd", value)) for key, value in facts_listed),
                class_="facts little",
            ),
            table("Who answered", headings, rows, numbers=(1, 2, 5), class_="stack"),
            paragraph(
                "The last column is what the whole plan may cost a site by its own account, of one record against the"
                f" server at δ = {delta_text(facts.delta)}: every round, whoever else takes part.",
                class_="small muted",
            ),
        ]
    )


def _row(one: ParticipantFacts) -> list[str]:
    missed = _rounds(one.missed)
    return [one.name, f"{one.records:,}", f"{one.answers:,}", missed, one.problem or "none", epsilon_text(one.alone)]


def _rounds(rounds: Sequence[int]) -> str:
    """Counted from 1, as progress is."""
    if not rounds:
        return "none"
    named = ", ".join(str(round + 1) for round in rounds[:MOST_MISSED])
    return named if len(rounds) <= MOST_MISSED else f"{named} and {len(rounds) - MOST_MISSED} more"
