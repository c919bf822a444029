"""The first screen of a run: what was trained, on whose data, how far it came, and what is promised to whom."""

from __future__ import annotations

from fedveil.core.guarantee import Guarantee
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import Verdict
from fedveil.report.model.number_texts import delta_text, epsilon_text
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.page.guarantee_sentences import (
    OF_WHAT,
    copies_words,
    guarantee_of,
    meaning,
    not_private,
    not_private_badge,
    nothing_promised,
    odds,
    promise_sentences,
    status_words,
    uncovered_words,
    worthless,
)
from fedveil.report.page.markup import Markup, bullet_list, callout, join, paragraph, table, tag
from fedveil.report.page.quality_section import main_fact, quality_warning


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


def first_screen(run: Run, options: Options) -> Markup:
    """The facts at a glance and the table of guarantees in its shortest form."""
    _, sentence = status_words(run.status)
    parameters = f"{run.model}, {run.parameters:,} parameters" if run.parameters is not None else run.model
    figure, value = main_fact(run)
    measured = f"on {run.validation:,} validation records" if run.validation is not None else "on validation records"
    last = "" if run.status.state == "finished" else ", so far"
    facts = [
        ("What was trained", run.method, f"{' '.join(run.clips)} After: {run.paper}. Model: {parameters}."),
        ("On whose data", run.data, ". ".join(filter(None, (run.data_words.rstrip("?."), run.clients_words)))),
        ("How far it came", f"{run.status.published} of {run.status.planned} rounds", sentence),
        (f"{figure[0].upper()}{figure[1:]}{last}", value, f"of the shared model, {measured}"),
    ]
    cards = tag(
        "dl",
        *(
            tag("div", tag("dt", title), tag("dd", value, tag("span", remark, class_="small")))
            for title, value, remark in facts
        ),
        class_="facts",
    )
    return join([cards, _at_a_glance(run, options)])


def _at_a_glance(run: Run, options: Options) -> Markup:
    guarantees = run.guarantees
    if guarantees is None:
        return callout(
            "bad", "No guarantee can be stated", "What this run promises or has spent is not known; see above."
        )
    rows = [
        [
            join([view.adversary.who, tag("span", view.adversary.sees, class_="who")]),
            *(_glance(guarantee_of(guarantees, unit, view)) for unit in Unit),
        ]
        for view in View
    ]
    copies = copies_words(guarantees)
    uncovered = uncovered_words(guarantees)
    return tag(
        "div",
        table(
            f"What an adversary can find out, at δ = {delta_text(run.delta)}. ε bounds it: 0 is nothing, ∞ is no"
            " protection.",
            ["An adversary", *(f"… learns of {OF_WHAT[unit]}" for unit in Unit)],
            rows,
            class_="glance",
        ),
        paragraph(_promised_or_spent(run, options), class_="small muted"),
        bullet_list(promise_sentences(guarantees)),
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


def _glance(guarantee: Guarantee | None) -> Markup:
    """One ε with what it means for a guess; ∞ with the shortest word for it."""
    if guarantee is None:
        return tag("span", "not known", class_="muted")
    if not guarantee.finite:
        return join(
            [
                tag("span", "ε = ∞", class_="epsilon none"),
                tag("span", tag("span", style="width:100%"), class_="meter full", aria_hidden="true"),
                tag("span", "nothing is promised", class_="odds"),
            ]
        )
    epsilon, delta = guarantee.epsilon, guarantee.delta
    meter = "meter full" if guarantee.void is not None or worthless(epsilon, delta) else "meter"
    share = max(0.0, 2 * odds(epsilon, delta) - 1) * 100
    return join(
        [
            tag("span", f"ε = {epsilon_text(epsilon)}", class_="epsilon"),
            tag("span", tag("span", style=f"width:{share:.0f}%"), class_=meter, aria_hidden="true"),
            tag("span", meaning(guarantee), class_="odds"),
        ]
    )
