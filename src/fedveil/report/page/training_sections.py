"""How the training went: accuracy and ε over rounds, update norms and clipping; and who took part in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.report.model.number_texts import epsilon_text
from fedveil.report.model.run_facts import Clients, Options, Run
from fedveil.report.model.score_texts import unit_of
from fedveil.report.page.axis_scales import ChartPoint
from fedveil.report.page.guarantee_sentences import nothing_promised
from fedveil.report.page.markup import Markup, join, paragraph, table, tag
from fedveil.report.page.svg_charts import Chart, Line, bar_chart, line_chart

MOST_CLIENTS = 50
"""Up to so many clients have a row each; more are listed in groups."""

MOST_NAMED = 1000
"""The same for sites with names, which readers look for."""

MOST_GROUPS = 12
RAW = "Computed from raw data: not covered by the guarantee, not for release."


def _points(rounds: Sequence[Mapping[str, Any]], key: str) -> list[ChartPoint]:
    """(rounds done, value) for the rounds whose event has the value."""
    return [
        (event["round"] + 1, float(event[key]))
        for event in rounds
        if isinstance(event.get(key), int | float) and not isinstance(event.get(key), bool)
    ]


def training_section(run: Run, options: Options, name: str) -> Markup:
    """The charts."""
    if not run.rounds and not run.epsilon_lines:
        return paragraph("No round has been published yet, so there is nothing to draw.")
    charts = [line_chart(chart) for chart in _charts(run, options, name) if any(line.points for line in chart.lines)]
    if nothing_promised(run.guarantees):
        why = paragraph("ε = ∞ from the first round on: nothing is promised to anybody, so there is nothing to draw.")
        charts.insert(1, tag("figure", tag("figcaption", "ε over rounds"), why))
    return join([tag("div", *charts, class_="charts"), *map(paragraph, run.clips)])


def _charts(run: Run, options: Options, name: str) -> list[Chart]:
    of = run.rounds
    own = [
        Line(label, _points(of, key))
        for key, label in (
            ("majority", "always the commonest class"),
            ("own_accuracy", "clients' own tests"),
            ("personal_accuracy", "clients' own models"),
        )
    ]
    limit = None
    if run.budget is not None:
        limit = (run.budget[0], f"budget ε = {run.budget[0]:g} ({run.budget[1]})")
    charts = [
        Chart(
            f"{name}-accuracy",
            "Accuracy over rounds",
            "Of the shared model, on validation records that no client trains on.",
            "rounds",
            "accuracy",
            (Line("shared model", _points(of, "accuracy")), *(line for line in own if line.points)),
        ),
        Chart(
            f"{name}-error",
            "Error over rounds",
            "Of the shared model, on validation records that no client trains on.",
            "rounds",
            f"error ({unit_of(run.task)})" if unit_of(run.task) else "error",
            (Line("RMSE", _points(of, "rmse")), Line("MAE", _points(of, "mae"))),
            zero=True,
        ),
        Chart(
            f"{name}-epsilon",
            "ε over rounds",
            "Verified: spent by the client with the most."
            if run.epsilon_lines_spent
            else "Promised for so many rounds.",
            "rounds",
            "ε",
            tuple(Line(line.name, line.points) for line in run.epsilon_lines),
            limit=limit,
            zero=True,
            logarithmic=True,
            say=epsilon_text,
        ),
    ]
    if options.release:
        return charts
    norms = [Line("mean over clients", _points(of, "update_norm")), Line("largest", _points(of, "largest_update_norm"))]
    bound = Line("clipping bound", _points(of, "bound"))
    return [
        *charts,
        Chart(
            f"{name}-norms",
            "Size of the updates",
            f"{'As sent, and where it is clipped. ' if bound.points else ''}{RAW}",
            "rounds",
            "L2 norm",
            (*norms, *([bound] if bound.points else [])),
            logarithmic=True,
        ),
        Chart(
            f"{name}-loss",
            "Training loss",
            f"Mean over clients. {RAW}",
            "rounds",
            "loss",
            (Line("training loss", _points(of, "train_loss")),),
            zero=True,
        ),
    ]


# Who took part


def participation_section(run: Run, options: Options, name: str) -> Markup:
    """How often, and what each has left: a row for each of a few clients, groups of many."""
    if options.release:
        return paragraph(
            "Left out of a page for release: who took part how often is not published, because guarantees that count on"
            " a hidden draw would no longer hold."
        )
    who = run.clients
    if who is None:
        return paragraph("The ledger could not be read, so who took part is not known; see above.")
    total = len(who.rounds)
    never = sum(rounds == 0 for rounds in who.rounds)
    mean = sum(who.rounds) / max(total, 1)
    how_often = (
        f"{total:,} {who.word}s; a {who.word} took part in {mean:.3g} rounds on average, {max(who.rounds)} at most;"
        f" {never:,} never did. Every attempt counts, also one that was never published."
    )
    groups = _groups(who)
    bars = [(_span(*group), len(members)) for group, members in groups]
    chart = bar_chart(
        f"{name}-clients",
        f"How often {who.word}s took part",
        f"{who.word.capitalize()}s by the number of rounds they took part in.",
        "rounds taken part in",
        f"{who.word}s",
        bars,
        f"{who.word.capitalize()}s by rounds",
    )
    listed = _each(who) if total <= (MOST_NAMED if who.names else MOST_CLIENTS) else _grouped(who, groups)
    return join([paragraph(how_often), paragraph(who.rule), tag("div", chart, listed, class_="charts")])


def _groups(who: Clients) -> list[tuple[tuple[int, int], list[int]]]:
    """Clients by rounds taken part in, in at most a dozen groups of the same width, none left out in between."""
    most = max(who.rounds, default=0)
    width = math.ceil((most + 1) / MOST_GROUPS)
    groups: list[tuple[tuple[int, int], list[int]]] = [
        ((low, min(low + width - 1, most)), []) for low in range(0, most + 1, width)
    ]
    for client, rounds in enumerate(who.rounds):
        groups[rounds // width][1].append(client)
    return groups


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _epsilons(values: Sequence[float]) -> str:
    low, high = (epsilon_text(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _headings(who: Clients) -> list[str]:
    spent = [] if who.epsilon is None else [f"ε spent ({who.cell})"]
    return spent + ([] if who.left is None else ["rounds left"])


def _each(who: Clients) -> Markup:
    rows = []
    for client, rounds in enumerate(who.rounds):
        row = [who.name(client), f"{who.records[client]:,}", str(rounds)]
        row += [] if who.promised is None else [epsilon_text(who.promised[client])]
        row += [] if who.epsilon is None else [epsilon_text(who.epsilon[client])]
        rows.append(row + ([] if who.left is None else [str(who.left[client])]))
    promised = [] if who.promised is None else [f"ε promised ({who.cell})"]
    headings = [who.word, "records", "rounds taken part in", *promised, *_headings(who)]
    return table(f"Each {who.word}", headings, rows, numbers=range(1, len(headings)))


def _grouped(who: Clients, groups: Sequence[tuple[tuple[int, int], list[int]]]) -> Markup:
    rows = []
    for group, members in groups:
        if not members:
            continue
        row = [_span(*group), f"{len(members):,}"]
        row += [] if who.epsilon is None else [_epsilons([who.epsilon[client] for client in members])]
        if who.left is not None:
            left = [who.left[client] for client in members]
            row.append(_span(min(left), max(left)))
        rows.append(row)
    headings = ["rounds taken part in", "clients", *_headings(who)]
    numbers = range(len(headings))
    return table(f"{len(who.rounds):,} {who.word}s in groups", headings, rows, numbers=numbers)
