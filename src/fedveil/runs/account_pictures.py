"""Pictures of an account: ε over the rounds, and what an attacker can tell."""

from __future__ import annotations

from pathlib import Path

from fedveil.accounting.plan import plan
from fedveil.core.atomic import disk_errors
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import cell_name
from fedveil.core.progress import told
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View
from fedveil.report.plots.epsilon_curves import draw_epsilon_curves
from fedveil.report.plots.tradeoff_curves import draw_attack_rates
from fedveil.runs.account import Account


def draw_curve(account: Account, path: Path) -> None:
    """ε over rounds for every cell, as promised."""
    total = account.spec.method.rounds
    marks = sorted({max(1, round(total * share / 20)) for share in range(1, 21)})
    tables = [plan(account.context, rounds) for rounds in marks]
    cells = [(unit, view) for unit in Unit for view in View]
    curves = {
        cell_name(unit, view): [table.of(unit, view).epsilon for table in tables]
        for unit, view in told("ε over the rounds", cells)
    }
    title = f"{account.name}: ε at δ = {account.context.delta:g}, worst case over clients"
    with disk_errors(path):
        draw_epsilon_curves(path, marks, curves, title)


def draw_risk(account: Account, unit: Unit, view: View, path: Path) -> None:
    """The trade-off of one cell between false and true positives, with the attacker's best point."""
    table = account.spent or account.promised
    cell, points = table.of(unit, view), table.tradeoff(unit, view)
    if points is None or cell.risk is None:
        raise FedveilError(f"{cell.name}: nothing is promised, so there is no trade-off to draw: {cell.reason}")
    title = f"{account.name}: {cell.name}, ε = {rounded_up(cell.epsilon)} at δ = {cell.delta:g} ({cell.relation})"
    with disk_errors(path):
        draw_attack_rates(path, title, *points, cell.risk)
