"""Facts of a report that follow from the ledger: ε over rounds, and what each client has spent and has left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedveil.accounting.context import Context
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.site_table import own_cell
from fedveil.accounting.table import Table
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Guarantee, cell_name
from fedveil.core.types import TableCell
from fedveil.report.model.number_texts import delta_text
from fedveil.report.model.run_facts import Clients, EpsilonLine
from fedveil.report.page.axis_scales import evenly_chosen
from fedveil.runs.book import Book
from fedveil.runs.budgeted_admission import admission_of, past_of
from fedveil.runs.read import Reading

CHART_MARKS = 16
"""Rounds at which ε is computed for the chart."""


def epsilon_lines(
    read: Reading, context: Context | None, table: Table | None, promise: Table | None, release: bool
) -> tuple[EpsilonLine, ...]:
    """ε of every finite cell at a few rounds; cells that agree in everything share a line."""
    shown = promise if release or table is None else table
    if context is None or shown is None:
        return ()
    alike: dict[tuple[Any, ...], list[Guarantee]] = {}
    for cell in shown.guarantees:
        if cell.finite:
            key = (cell.unit, cell.relation, cell.composition, f"{cell.epsilon:.6g}")
            alike.setdefault(key, []).append(cell)
    lines, single = [], replace(context, copies=1)  # a chart speaks of one copy
    for cells in alike.values():
        unit, view = cells[0].unit, cells[0].view
        if release or table is None or read.book is None:  # there is no table without a book
            points = _promised_points(single, (unit, view))
        else:
            points = _spent_points(single, read.book, (unit, view))
        lines.append(EpsilonLine(f"{unit} × {', '.join(str(each.view) for each in cells)}", points))
    return tuple(lines)


def _promised_points(context: Context, cell: TableCell) -> tuple[tuple[float, float], ...]:
    """ε as it is promised for so many rounds."""
    marks = [index + 1 for index in evenly_chosen(context.method.rounds, CHART_MARKS)]
    return tuple((float(rounds), plan(context, rounds).of(*cell).epsilon) for rounds in marks)


def _spent_points(context: Context, book: Book, cell: TableCell) -> tuple[tuple[float, float], ...]:
    """ε as it was spent after so many rounds."""
    points = []
    for rounds in (index + 1 for index in evenly_chosen(book.begun, CHART_MARKS)):
        charges = [charge for charge in book.charges if charge.round < rounds]
        attempts = [round for round in book.attempts if round < rounds]
        points.append((float(rounds), replay(context, charges, rounds, attempts=attempts).of(*cell).epsilon))
    return tuple(points)


def clients_of(read: Reading, context: Context | None, promise: Table | None, table: Table | None) -> Clients | None:
    """Who took part, what each has spent and has left, if the ledger can be read."""
    book = read.book
    if book is None or context is None:
        return None
    population = context.population
    cell = None if table is None else own_cell(table)
    epsilon = None if cell is None or table is None else table.per_client(*cell)
    promised = promise.per_client(*cell) if population.names and cell is not None and promise is not None else None
    left, rule = _left(read, context, book)
    return Clients(
        records=population.records,
        rounds=book.rounds_of_clients(population.clients),
        cell="" if cell is None else cell_name(*cell),
        epsilon=epsilon,
        left=left,
        rule=rule,
        names=population.names,
        promised=promised,
    )


def _left(read: Reading, context: Context, book: Book) -> tuple[tuple[int, ...] | None, str]:
    """How many rounds each client has left, and by which rule."""
    budget, most, method = context.budget, context.limit, context.method
    if budget is None and most is None:
        return None, "Nothing limits how often a client is drawn: no limit of rounds and no budget was set."
    rule = "" if most is None else f"A client may take part in at most {most:,} rounds. "
    if budget is not None:
        rule += f"No client may pass ε = {budget.epsilon:g} of {budget.cell} at δ = {delta_text(budget.delta)}"
    try:
        admission = admission_of(context, past_of(book.rounds, context.seeded, read.published))
        left = tuple(admission.left(min(read.published, method.rounds - 1)))
    except FedveilError as error:
        return None, f"{rule}. What is left can't be computed ({error})."
    if budget is None:
        return left, rule.strip()
    return left, f"{rule}; what is left is counted at the price of the next round."
