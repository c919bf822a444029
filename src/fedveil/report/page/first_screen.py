"""The first screen of a run: a verdict in one sentence, then who is protected from whom, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.core.guarantee import Guarantee
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import Verdict
from fedveil.report.model.audit_sentences import VERDICTS
from fedveil.report.model.number_texts import delta_text, epsilon_text
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.model.verdict_sentence import USELESS, CellRisk, times_in_hundred, verdict_sentence
from fedveil.report.page.explained_words import explained
from fedveil.report.page.guarantee_sentences import (
    copies_words,
    guarantee_of,
    guess_share,
    guess_words,
    meaning,
    not_private,
    not_private_badge,
    nothing_promised,
    status_words,
    uncovered_words,
)
from fedveil.report.page.markup import Markup, bullet_list, callout, join, paragraph, table, tag
from fedveil.report.page.quality_section import main_fact, quality_warning

ASKED = {Unit.RECORD: "… about one person's record?", Unit.CLIENT: "… about one whole client?"}
"""The columns of the short table; its rows are who wants to find something out."""

DEGREES = ((0.75, "good", "Yes, kept from it"), (0.9, "note", "Partly"), (USELESS, "warn", "Hardly"))
"""Up to which share of right guesses somebody counts as kept from finding out, and what that is called."""

NOT_KEPT = ("bad", "No, not kept from it")


def badges(run: Run) -> Markup:
    """The state of a run in a few words."""
    state, _ = status_words(run.status)
    shown = [("good" if run.status.state == "finished" else "warn", state)]
    warning = not_private_badge(run)
    if warning is not None:
        shown.append(("bad", warning))
    if nothing_promised(run.guarantees):
        shown.append(("bad", "no guarantee"))
    if _broken(run):
        shown.append(("bad", "an audit broke the promise"))
    return tag("p", *(tag("span", text, class_=f"badge {kind}") for kind, text in shown))


def first_warnings(run: Run) -> Markup:
    """What must be read before any number."""
    callouts = []
    if run.status.state != "finished":
        callouts.append(callout("warn", "This run is unfinished", status_words(run.status)[1]))
    if run.problems:
        callouts.append(callout("warn", "Not everything could be read", bullet_list(run.problems)))
    if run.diverged:
        text = (
            "Its last loss is beyond all bounds: the model is worse than any guess. What it cost is spent all the same."
        )
        callouts.append(callout("warn", "The training diverged", text))
    useless = quality_warning(run)
    if useless is not None:
        callouts.append(useless)
    reasons = not_private(run)
    if reasons:
        callouts.append(callout("bad", "Not private", *reasons))
    if _broken(run):
        callouts.append(
            callout(
                "bad",
                "An audit broke the promise",
                "Do not rely on the guarantee below; see “Audits: what an adversary could prove”.",
            )
        )
    return join(callouts)


def _broken(run: Run) -> bool:
    return any(audit.verdict is Verdict.CONTRADICTED for audit in run.audits)


def page_verdict(run: Run) -> str:
    """The sentence for the cells that the page shows."""
    if run.guarantees is None:
        return "No verdict: what this training promises or has spent is not known."
    known = {(risk.unit, risk.view): risk for risk in run.risks if risk.right_guess is not None}
    cells = [known.get((cell.unit, cell.view), _from_epsilon(cell)) for cell in run.guarantees]
    void = None
    if _broken(run):
        void = "an audit broke the promise"
    elif run.seeded:
        void = "the noise came from a fixed seed and can be taken off again"
    elif not_private(run):
        void = not_private(run)[0].rstrip(".")
    states = ["Unfinished"] * (run.status.state != "finished") + ["Diverged"] * run.diverged
    return verdict_sentence(cells, not_private=void, state=" and ".join(states) or None)


def _from_epsilon(cell: Guarantee) -> CellRisk:
    """Where no composition is known: a guarantee that an older version kept."""
    share = guess_share(cell) if cell.finite else None
    return CellRisk(cell.unit, cell.view, cell.relation, share, void=cell.void is not None)


def verdict_section(run: Run) -> Markup:
    """The verdict, and four sentences that a reader without any knowledge of the field needs with it."""
    return join([paragraph(page_verdict(run), class_="verdict"), bullet_list(_beside_the_verdict(run), class_="brief")])


def _beside_the_verdict(run: Run) -> list[str]:
    model = f"{run.model}, {run.parameters:,} parameters" if run.parameters is not None else run.model
    figure, value = main_fact(run)
    trained = f"What was trained: a model ({model}) by {run.method} on {run.data}; {run.clients_words}."
    return [
        f"{trained} {status_words(run.status)[1]} Its {figure}: {value}.",
        *_not_kept(run),
        *_whole_client(run),
        *([f"Not covered by any number here: {_few(run.not_covered)}"] if run.not_covered else []),
        _tested(run),
    ]


def _not_kept(run: Run) -> list[str]:
    cells = [guarantee_of(run.guarantees or (), Unit.RECORD, view) for view in View]
    open_to = [
        cell for cell in cells if cell is not None and (not cell.finite or guess_share(cell, run.risks) > USELESS)
    ]
    if not open_to or run.guarantees is None:
        return []
    who = "; ".join(f"{cell.view.adversary.who[0].lower()}{cell.view.adversary.who[1:]}" for cell in open_to)
    return [f"Not kept from finding it out: {who}."]


def _whole_client(run: Run) -> list[str]:
    """The same question about everything that one client holds, to which the answer is often another."""
    cell = guarantee_of(run.guarantees or (), Unit.CLIENT, View.SERVER)
    if cell is None or cell.void is not None:
        return []
    share = guess_share(cell, run.risks)
    often = "nothing is promised" if not cell.finite else guess_words(share)
    return [f"Whether one whole client's records were used, against the server: {often}."]


def _few(sentences: tuple[str, ...]) -> str:
    shown = [f"{text[0].lower()}{text[1:].rstrip('.')}" for text in sentences[:3]]
    return "; ".join(shown) + (f"; and {len(sentences) - 3} more, listed below." if len(sentences) > 3 else ".")


def _tested(run: Run) -> str:
    audits, attacks = len(run.audits), len(run.attacks)
    if not audits and not attacks:
        return "No audit or attack has tested it yet: it follows from a proof, and from receipts of what was executed."
    verdicts = ", ".join(dict.fromkeys(VERDICTS[audit.verdict] for audit in run.audits))
    stolen = any(attack.success_rate for attack in run.attacks)
    parts = [f"{audits} audit{'s' * (audits != 1)} ({verdicts})"] * bool(audits)
    parts += [
        f"{attacks} attack{'s' * (attacks != 1)} ({'records were' if stolen else 'no record was'} reconstructed)"
    ] * bool(attacks)
    return f"Tested by {' and '.join(parts)}, besides the proof: see “Audits” and “Attacks” below."


def who_section(run: Run, options: Options, name: str) -> Markup:
    """Five adversaries, two questions, and for each an answer, how often a guess is right, and ε."""
    guarantees = run.guarantees
    if guarantees is None:
        return callout(
            "bad", "No guarantee can be stated", "What this run promises or has spent is not known; see above."
        )
    return who_table(guarantees, run.risks, _promised_or_spent(run, options), f"{name}-words")


def who_table(guarantees: Sequence[Guarantee], risks: Sequence[CellRisk], remark: str, words: str) -> Markup:
    """The table itself. `remark` says of what it speaks; `words` is where words are explained."""
    rows = [
        [
            join([view.adversary.who, tag("span", view.adversary.sees, class_="who")]),
            *(_answer(guarantee_of(guarantees, unit, view), risks) for unit in Unit),
        ]
        for view in View
    ]
    copies, uncovered = copies_words(guarantees), uncovered_words(guarantees)
    epsilon = explained("ε", "ε at δ", words)
    hundred = explained("times in 100", "right at most … times in 100", words)
    return tag(
        "div",
        table(
            f"Who finds out what, at most; at δ = {delta_text(guarantees[0].delta)}",
            ["Is this adversary kept from finding out …", *(ASKED[unit] for unit in Unit)],
            rows,
            class_="glance",
        ),
        paragraph(
            "A guess is right at most so many ",
            hundred,
            ": 50 is a coin, 100 is certainty. Up to 75 counts as yes, up to 90 as partly, up to 99.9 as hardly. ",
            epsilon,
            " is the same in the measure of the field: 0 is nothing, ∞ is no protection.",
            class_="small muted",
        ),
        paragraph(remark, class_="small muted"),
        callout("warn", "The same record is held by several clients", bullet_list(copies)) if copies else None,
        callout("warn", "Not covered by any ε", bullet_list(uncovered)) if uncovered else None,
    )


def _promised_or_spent(run: Run, options: Options) -> str:
    if options.release:
        return "This is what is guaranteed, whoever took part how often."
    if run.spent is not None:
        return (
            "This is what was spent in the rounds that ran, by the client with the most. What was promised before the"
            " first round stands beside it under “What is guaranteed”."
        )
    if run.status.begun == 0:
        return "This is what is promised for the whole training; no round has begun, so nothing was spent yet."
    return "This is what is promised for the whole training; what was spent is not known."


def _answer(guarantee: Guarantee | None, risks: Sequence[CellRisk]) -> Markup:
    """Yes or no in a word, how often a guess is right, and ε; ∞ with the shortest word for it."""
    if guarantee is None:
        return tag("span", "not known", class_="muted")
    share = guess_share(guarantee, risks)
    holds = guarantee.finite and guarantee.void is None
    kind, word = NOT_KEPT
    if holds:
        kind, word = next(((kind, word) for most, kind, word in DEGREES if share <= most), NOT_KEPT)
    filled = 100.0 if not holds else max(0.0, 2 * share - 1) * 100
    meter = "meter" if holds and share <= USELESS else "meter full"
    return join(
        [
            tag("span", word, class_=f"answer {kind}"),
            tag("span", tag("span", style=f"width:{filled:.0f}%"), class_=meter, aria_hidden="true"),
            tag("span", "nothing is promised" if not guarantee.finite else meaning(guarantee, risks), class_="odds"),
            tag("span", f"ε = {epsilon_text(guarantee.epsilon)}", class_="epsilon" if holds else "epsilon none"),
        ]
    )


def site_section(run: Run) -> Markup:
    """Each site by its name, with its own numbers."""
    rows = []
    for site in run.sites:
        cells = [
            f"{_share_text(risk)} (ε = {epsilon_text(epsilon)})"
            for risk, epsilon in zip(site.risks, site.epsilons, strict=True)
        ]
        rows.append([site.name, f"{site.records:,}", *cells])
    headings = ["Site", "Records", "Server's guess, right in 100", "Anybody's guess, right in 100"]
    return join(
        [
            paragraph(
                "What can be found out about one record of each site, by whoever sees everything the server saw, and by"
                " whoever sees every published model. A coin is right 50 times in 100."
            ),
            table("Sites by name", headings, rows, numbers=(1,), class_="stack"),
        ]
    )


def _share_text(risk: CellRisk) -> str:
    return "not bounded" if risk.right_guess is None else f"at most {times_in_hundred(risk.right_guess)}"
