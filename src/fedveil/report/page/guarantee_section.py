"""The table of guarantees in full: what was composed, what it rests on, what the papers claim."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.guarantee import Caveat, Guarantee
from fedveil.report.model.number_texts import claimed_text, delta_text, epsilon_text
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.page.guarantee_sentences import guarantee_of, nothing_promised, promise_sentences, shared_caveats
from fedveil.report.page.markup import Markup, bullet_list, join, paragraph, table, tag


def guarantee_section(run: Run, options: Options) -> Markup:
    """Every cell, the caveats that all share, and the claims beside what holds."""
    guarantees = run.guarantees
    if guarantees is None:
        return paragraph("Neither what is promised nor what was spent is known.")
    shared = [] if nothing_promised(guarantees) else shared_caveats(guarantees)
    both = run.spent is not None and run.promised is not None and not options.release
    headings = ["Of what × against whom", "ε" if not both else "ε spent", *(["ε promised"] if both else [])]
    headings += ["Composition, or why there is none", "What it rests on besides"]
    rows = [_row(alike, run, shared, both) for alike in _alike(guarantees, run.promised or ())]
    title = f"{'Spent' if both else 'Guaranteed'} at δ = {delta_text(run.delta)}, worst case over clients"
    return join(
        [
            bullet_list(promise_sentences(guarantees, run.risks)),
            table(title, headings, rows, class_="wide stack"),
            *([paragraph("All of it rests on:"), _caveat_list(shared)] if shared else []),
            _claims(run),
        ]
    )


def _alike(guarantees: Sequence[Guarantee], promised: Sequence[Guarantee]) -> list[list[Guarantee]]:
    """Cells of one unit that say the same in everything stand in one row."""
    groups: dict[tuple[object, ...], list[Guarantee]] = {}
    for each in guarantees:
        other = guarantee_of(promised, each.unit, each.view)
        values = (epsilon_text(each.epsilon), None if other is None else epsilon_text(other.epsilon))
        same = (each.unit, each.relation, each.composition, each.accountant, each.reason, each.caveats)
        groups.setdefault((*values, *same), []).append(each)
    return list(groups.values())


def _row(alike: Sequence[Guarantee], run: Run, shared: Sequence[Caveat], both: bool) -> list[str]:
    worst = max(alike, key=lambda guarantee: guarantee.epsilon)
    name = join(
        [
            f"{worst.unit} × {', '.join(each.view for each in alike)}",
            tag("span", "; ".join(each.view.adversary.who for each in alike), class_="who"),
        ]
    )
    values = [tag("span", epsilon_text(worst.epsilon), class_="epsilon" if worst.finite else "epsilon none")]
    if both:
        promised = guarantee_of(run.promised or (), worst.unit, worst.view)
        values.append(tag("span", epsilon_text(None if promised is None else promised.epsilon)))
    if not worst.finite:
        return [name, *values, worst.reason, ""]
    composed = join([worst.composition, tag("span", f"{worst.relation}; {worst.accountant}", class_="who")])
    own = [caveat for caveat in worst.caveats if caveat not in shared]
    return [name, *values, composed, _caveat_list(own) if own else ""]


def _caveat_list(caveats: Sequence[Caveat]) -> Markup:
    return bullet_list(caveat.text for caveat in caveats)


def _claims(run: Run) -> Markup:
    if not run.claims:
        return paragraph("No paper claims a number for this training.", class_="muted")
    rows = []
    for claim in run.claims:
        mine = guarantee_of(run.promised or run.spent or (), claim.unit, claim.view)
        verified = epsilon_text(None if mine is None else mine.epsilon)
        rows.append([claim.name, claimed_text(claim.epsilon), verified, claim.source, claim.difference])
    headings = ["Of what × against whom", "ε claimed", "ε verified", "Claimed by", "Why they differ"]
    return table("What the paper claims for the whole training, beside what holds", headings, rows, class_="wide stack")
