"""A site's own page: what was asked of it, paid, sent, and what is left, in the words of a run's first screen."""

from __future__ import annotations

from collections.abc import Callable

from fedveil.report.model.number_texts import delta_text, epsilon_text, left_text
from fedveil.report.model.site_life import AnswerFacts, BudgetFacts, PlanAtSite, SiteLife
from fedveil.report.model.verdict_sentence import verdict_sentence
from fedveil.report.page.explained_words import glossary
from fedveil.report.page.first_screen import who_table
from fedveil.report.page.markup import Markup, bullet_list, callout, join, paragraph, table, tag
from fedveil.report.page.page_frame import page_footer, skip_link, whole_page
from fedveil.report.page.svg_charts import Chart, Line, line_chart

MOST_ANSWERS_LISTED = 200
"""So many of the last answers are listed on the page; all of them are in the file of receipts."""

SHORT_DIGEST = 16

NOT_COVERED = (
    "How many records this site holds: it stands in every plan.",
    "That this site takes part, whether and when it answers, and how long an answer takes.",
    "A person with several records: what is said of one person's record speaks of one of them.",
    "Whatever else is done with the records, here or elsewhere; a further ledger for the same people adds up.",
    "What a model says about people in general: it may be used to guess something about somebody who never took part.",
    "Plans are added up as if the noise and the rounds of a later plan were fixed without looking at earlier answers.",
)

_Section = tuple[str, str, Callable[[], Markup]]


def site_page_html(life: SiteLife, *, made: str, version: str) -> str:
    """The HTML of a site's report."""
    title = f"What left {life.name}, and what is left"
    sections = _sections(life)
    parts = [
        _warnings(life),
        tag("section", tag("h2", "The verdict", id="short"), _verdict(life), aria_labelledby="short"),
        tag(
            "nav",
            bullet_list([tag("a", heading, href=f"#{key}") for key, heading, _ in sections]),
            aria_label="Contents",
        ),
        callout(
            "note",
            "For this site's own people",
            "The page tells how often the site answered, and what it refused. Give it to whom you like; nothing in it"
            " was computed from records, but for the noisy answers' sizes and digests.",
        ),
    ]
    for key, heading, content in sections:
        parts.append(tag("section", tag("h2", heading, id=key), content(), aria_labelledby=key))
    body = [
        skip_link(),
        tag(
            "header",
            tag("p", "Privacy report of a site", class_="kicker"),
            tag("h1", title),
            _badges(life),
            paragraph(f"{life.records:,} records, which stay here. {life.ledger[:1].upper()}{life.ledger[1:]}."),
        ),
        tag("main", *parts, id="report"),
        page_footer(made, version),
    ]
    return whole_page(f"Privacy report: {life.name}", body)


def _sections(life: SiteLife) -> list[_Section]:
    return [
        ("who", "Who is protected from whom", lambda: _who(life)),
        ("left", "What was paid, and what is left", lambda: _budgets(life)),
        ("plans", "What was asked", lambda: _plans(life)),
        ("sent", "What left this house", lambda: _answers(life)),
        ("receipts", "Signed receipts", lambda: _receipts(life)),
        ("uncovered", "What is not covered", lambda: _uncovered()),
        ("words", "What the words mean", glossary),
    ]


def _badges(life: SiteLife) -> Markup:
    shown = [("good", f"{life.sent:,} answers sent")] if life.sent else [("note", "nothing sent yet")]
    if life.rehearsal:
        shown.append(("bad", "a rehearsal: nothing is protected"))
    elif life.lifetime.left <= 0:
        shown.append(("warn", "nothing is left"))
    return tag("p", *(tag("span", text, class_=f"badge {kind}") for kind, text in shown))


def _warnings(life: SiteLife) -> Markup:
    callouts = []
    if life.rehearsal:
        text = "Seeded plans and plans without noise are let in here, for records that are nobody's."
        callouts.append(callout("bad", "A rehearsal: nothing is protected", text))
    open_charges = len(life.answers) - life.sent
    if open_charges:
        text = f"Paid for and not sent: {open_charges}. Nothing of them has left; they are counted all the same."
        callouts.append(callout("note", "Interrupted answers", text))
    return join(callouts)


def _verdict(life: SiteLife) -> Markup:
    if not life.answers:
        sentence = "Nothing has left this house: no answer was ever paid for."
    else:
        void = "this site is a rehearsal, which lets in plans that protect nothing" if life.rehearsal else None
        sentence = verdict_sentence(life.risks, not_private=void)
    return join([paragraph(sentence, class_="verdict"), bullet_list(_beside(life), class_="brief")])


def _beside(life: SiteLife) -> list[str]:
    asked = f"{sum(plan.asked for plan in life.plans):,} rounds under {_counted(len(life.plans), 'plan')}"
    refused = ", ".join(f"{times:,} {kind}" for kind, times in life.refused.items())
    size = "" if life.size is None else f", {life.size:,} bytes in all"
    budget = life.lifetime
    return [
        f"Asked: {asked}. Refused: {refused or 'nothing, as far as the log goes back'}.",
        f"Paid: {_counted(len(life.answers), 'answer')}; together ε = {epsilon_text(budget.spent)} of {life.cell}"
        f" at δ = {delta_text(budget.delta)}, counting on nobody else.",
        f"Sent: {_counted(life.sent, 'answer')}{size}. No record has left; nothing else but with noise.",
        f"Left, for ever: ε = {left_text(budget.left)} of {budget.allowed:g}.",
    ]


def _who(life: SiteLife) -> Markup:
    remark = (
        "This is what all answers together show, to all plans, as if everybody knew that this site gave them. Neither a"
        " draw of sites nor the noise of others is counted on."
    )
    return who_table(life.guarantees, life.risks, remark, "words")


def _budgets(life: SiteLife) -> Markup:
    rows = [
        ["All plans, for ever", *_budget_cells(life.lifetime)],
        *([f"Plan {plan.name}, {plan.hash[:SHORT_DIGEST]}", *_budget_cells(plan.budget)] for plan in life.plans),
    ]
    headings = ["Budget", "δ", "ε allowed", "ε spent", "ε left"]
    chart = Chart(
        "life",
        "ε over answers",
        f"Of {life.cell}, over all plans, at δ = {delta_text(life.lifetime.delta)}.",
        "answers paid for",
        "ε",
        (Line("spent", life.course),),
        limit=(life.lifetime.allowed, f"for ever ε = {life.lifetime.allowed:g}"),
        zero=True,
        say=epsilon_text,
    )
    listed = table(f"Of {life.cell}", headings, rows, numbers=range(1, 5), class_="stack")
    return join([listed, tag("div", line_chart(chart), class_="charts") if len(life.course) > 1 else None])


def _budget_cells(budget: BudgetFacts) -> list[str]:
    return [delta_text(budget.delta), f"{budget.allowed:g}", epsilon_text(budget.spent), left_text(budget.left)]


def _plans(life: SiteLife) -> Markup:
    if not life.plans:
        return paragraph("Nobody here has agreed to a plan yet.")
    rows = [_plan_row(plan) for plan in life.plans]
    headings = ["Plan", "Agreed to", "Rounds asked", "Answers paid", "Answers sent", "Bytes sent"]
    return table("Plans that were agreed to here", headings, rows, numbers=range(2, 6), class_="stack")


def _plan_row(plan: PlanAtSite) -> list[str]:
    about = [plan.training] if plan.training else []
    about += [f"with {', '.join(plan.others)}"] if plan.others else []
    about += [f"asked by the key {plan.coordinator[:SHORT_DIGEST]}…"] if plan.coordinator else []
    name = join(
        [f"{plan.name}, {plan.hash[:SHORT_DIGEST]}", tag("span", "; ".join(about), class_="who") if about else None]
    )
    agreed = _moment(plan.agreed)
    if plan.withdrawn is not None:
        agreed += f"; taken back {_moment(plan.withdrawn)}"
    planned = "" if plan.planned is None else f" of {plan.planned:,}"
    size = "not known" if plan.size is None else f"{plan.size:,}"
    return [name, agreed, f"{plan.asked:,}{planned}", f"{plan.paid:,}", f"{plan.sent:,}", size]


def _answers(life: SiteLife) -> Markup:
    if not life.answers:
        return paragraph("Nothing.")
    shown = life.answers[-MOST_ANSWERS_LISTED:]
    caption = "Every answer" if len(shown) == len(life.answers) else f"The last {len(shown):,} of {len(life.answers):,}"
    headings = ["Digest (SHA-256)", "Plan, round", "Paid for", "Bytes", "Noise that it was charged with"]
    every = table(caption, headings, [_answer_row(answer) for answer in shown], numbers=(3,), class_="stack sources")
    return join(
        [
            paragraph(
                "An answer is a noisy update, a noisy report of its size where the method has one, or noisy counts of"
                " right predictions where the plan measures here; receipts, and a mark of this ledger. Its digest was"
                " in the ledger before it was sent. Asked the same question again, the site sends the same bytes, which"
                " are not listed again."
            ),
            every,
        ]
    )


def _answer_row(answer: AnswerFacts) -> list[str]:
    digest = "not sent" if answer.digest is None else f"{answer.digest[:SHORT_DIGEST]}…"
    size = "–" if answer.size is None else f"{answer.size:,}"
    return [digest, f"{answer.plan}, {answer.round + 1}", _moment(answer.time), size, answer.noise]


def _receipts(life: SiteLife) -> Markup:
    where = join(["They are in ", tag("code", life.receipts), ". "]) if life.receipts else Markup("")
    return join(
        [
            paragraph(
                where,
                "The file has every answer with its digest and what was added to it, signed with this site's key. An"
                " answer is sent only if what was measured on the numbers is as declared. Whoever has the key below"
                " (it is in the plan) checks the signature and computes ε again:",
            ),
            tag(
                "pre",
                tag("code", f"fedveil site check {life.receipts or 'RECEIPTS.json'}"),
                tabindex=0,
                aria_label="The command",
            ),
            tag("dl", tag("div", tag("dt", "Public key"), tag("dd", life.key)), class_="facts little"),
            paragraph(
                "They are statements of this site, not proofs: whoever doubts the site doubts them.", class_="muted"
            ),
        ]
    )


def _uncovered() -> Markup:
    return join(
        [
            paragraph("No noise covers these, and no number on this page speaks of them:"),
            bullet_list(NOT_COVERED),
            paragraph(
                "The numbers rely on this site alone: that its software is unchanged, its keys are its own, and its"
                " ledger is never put back to an older copy."
            ),
        ]
    )


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def _moment(time: str) -> str:
    return time.replace("T", " ").replace("+00:00", " UTC")
