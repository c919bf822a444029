"""The first screen of a run: what was trained, on whose data, how far it came, and what is promised to whom."""

from __future__ import annotations

import math

from fedveil.core.words import SCALED, SEEDED
from fedveil.report.model.run_facts import Cell, Options, Run
from fedveil.report.page.markup import Markup, callout, join, listing, paragraph, table, tag
from fedveil.report.page.sentences import (
    OF,
    VIEWS,
    WHO,
    cell_of,
    copies_words,
    delta_word,
    epsilon_word,
    meaning,
    not_private,
    odds,
    promise_sentences,
    status_words,
    value_of,
    void,
    worthless,
)


def badges(run: Run) -> Markup:
    """The state of a run in a few words."""
    word, _ = status_words(run.status)
    found = [("good" if run.status.state == "finished" else "warn", word)]
    if not_private(run):
        found.append(("bad", SEEDED if run.seeded else "not private as it stands"))
    if run.cells is not None and all(cell["epsilon"] == "inf" for cell in run.cells):
        found.append(("bad", "no guarantee"))
    broken = [audit for audit in run.audits if audit.get("holds") is False]
    if broken:
        found.append(("bad", "an audit broke the promise"))
    return tag("p", *(tag("span", words, class_=f"badge {kind}") for kind, words in found))


def warnings(run: Run, options: Options) -> Markup:
    """What must be read before any number."""
    found = []
    if run.status.state != "finished":
        found.append(callout("warn", "This run is unfinished", status_words(run.status)[1]))
    if run.problems:
        found.append(callout("warn", "Not everything could be read", listing(run.problems)))
    reasons = not_private(run)
    if reasons:
        found.append(callout("bad", "Not private", *reasons))
    for audit in run.audits:
        if audit.get("holds") is False:
            found.append(
                callout(
                    "bad",
                    "An audit broke the promise",
                    "Do not rely on the guarantee below; see “Audits: what an adversary could prove”.",
                )
            )
            break
    return join(found)


def summary(run: Run, options: Options) -> Markup:
    """The facts at a glance and the table of guarantees in its shortest form."""
    _, sentence = status_words(run.status)
    parameters = f"{run.model}, {run.parameters:,} parameters" if run.parameters is not None else run.model
    accuracy = "not measured" if run.accuracy is None else f"{run.accuracy:.1%}".replace("%", " %")
    measured = f"on {run.validation:,} validation records" if run.validation is not None else "on validation records"
    last = "" if run.status.state == "finished" else ", so far"
    facts = [
        ("What was trained", run.method, f"{' '.join(run.clips)} After: {run.paper}. Model: {parameters}."),
        ("On whose data", run.data, ". ".join(filter(None, (run.data_words.rstrip("?."), run.clients_words)))),
        ("How far it came", f"{run.status.published} of {run.status.planned} rounds", sentence),
        (f"Accuracy{last}", accuracy, f"of the shared model, {measured}"),
    ]
    cards = tag(
        "dl",
        *(
            tag("div", tag("dt", title), tag("dd", value, tag("span", words, class_="small")))
            for title, value, words in facts
        ),
        class_="facts",
    )
    return join([cards, _at_a_glance(run, options)])


def _at_a_glance(run: Run, options: Options) -> Markup:
    cells = run.cells
    if cells is None:
        return callout(
            "bad", "No guarantee can be stated", "What this run promises or has spent is not known; see above."
        )
    if options.release:
        kind = "This is what is guaranteed, whoever took part how often."
    elif run.spent is not None:
        kind = (
            "This is what was spent in the rounds that ran, by the client with the most. What was promised before the"
            " first round stands beside it under “What is guaranteed”."
        )
    elif run.status.begun == 0:
        kind = "This is what is promised for the whole training; no round has begun, so nothing was spent yet."
    else:
        kind = "This is what is promised for the whole training; what was spent is not known."
    copies, scaled = copies_words(cells), any(SCALED in cell["caveats"] for cell in cells)
    rows = [
        [
            join([WHO[view][0], tag("span", WHO[view][1], class_="who")]),
            *(glance(cell_of(cells, unit, view)) for unit in OF),
        ]
        for view in VIEWS
    ]
    at = f"at δ = {delta_word(run.delta)}"
    return tag(
        "div",
        table(
            f"What an adversary can find out, {at}. ε bounds it: 0 is nothing, ∞ is no protection.",
            ["An adversary", *(f"… learns of {words}" for words in OF.values())],
            rows,
            class_="glance",
        ),
        paragraph(kind, class_="small muted"),
        listing(promise_sentences(cells)),
        callout("warn", "The same record is held by several clients", listing(copies)) if copies else None,
        callout("warn", "Not covered by any ε", f"{SCALED[0].upper()}{SCALED[1:]}.") if scaled else None,
    )


def glance(cell: Cell | None) -> Markup:
    """One ε with what it means for a guess; ∞ with the shortest word for it."""
    if cell is None:
        return tag("span", "not known", class_="muted")
    value = value_of(cell)
    if math.isinf(value):
        return join(
            [
                tag("span", "ε = ∞", class_="epsilon none"),
                tag("span", tag("span", style="width:100%"), class_="meter full", aria_hidden="true"),
                tag("span", "nothing is promised", class_="odds"),
            ]
        )
    meter = "meter full" if void(cell) or worthless(value, cell["delta"]) else "meter"
    share = max(0.0, 2 * odds(value, cell["delta"]) - 1) * 100
    return join(
        [
            tag("span", f"ε = {epsilon_word(value)}", class_="epsilon"),
            tag("span", tag("span", style=f"width:{share:.0f}%"), class_=meter, aria_hidden="true"),
            tag("span", meaning(cell), class_="odds"),
        ]
    )
