"""Where an ε stands among those that others have published."""

from __future__ import annotations

from fedveil.core.guarantee import Guarantee
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import delta_text
from fedveil.report.model.published_deployments import Deployment, published_deployments
from fedveil.report.model.run_facts import Run
from fedveil.report.page.guarantee_sentences import guarantee_of
from fedveil.report.page.markup import Markup, details, join, paragraph, table, tag

NEIGHBOURS = 3
"""So many published deployments are shown below and above."""

HEADINGS = ("What", "By whom, when", "Of what", "ε", "Source")

NOT_COMPARABLE = (
    "Numbers of different kinds stand in one list here: some hide a day of a user, some a whole user, some hold against"
    " the company that collects, some only against the public. It shows what is usual, not what is enough."
)


def standing_section(run: Run) -> Markup:
    """A few neighbours by ε, with this training in its place; all of them below."""
    cell = _compared_cell(run)
    known = published_deployments()
    everything = table(
        "All published deployments with an ε",
        HEADINGS,
        [_row(each) for each in known.entries],
        numbers=(3,),
        class_="stack sources",
    )
    if cell is None:
        text = "No finite ε that holds is stated for this training, so there is nothing to compare."
        return join([paragraph(text), details(f"{len(known.entries)} published deployments", everything)])
    below = known.smaller(cell.epsilon)
    near = [
        *known.entries[max(0, below - NEIGHBOURS) : below],
        None,
        *known.entries[below : below + NEIGHBOURS],
    ]
    rows = [_own_row(run, cell) if each is None else _row(each) for each in near]
    return join(
        [
            paragraph(
                f"Of {len(known.entries)} published deployments with an ε, {below} state a smaller one than this"
                f" training's {rounded_up(cell.epsilon)} ({cell.name})."
            ),
            table("Its neighbours by ε", HEADINGS, rows, numbers=(3,), class_="stack sources"),
            paragraph(f"{NOT_COMPARABLE} Source: {known.registry}, as it stands there.", class_="small muted"),
            details(f"All {len(known.entries)} of them", everything),
        ]
    )


def _compared_cell(run: Run) -> Guarantee | None:
    """One record against the server, or against those who see the models."""
    cells = [guarantee_of(run.guarantees or (), Unit.RECORD, view) for view in (View.SERVER, View.RELEASED)]
    return next((cell for cell in cells if cell is not None and cell.finite and cell.void is None), None)


def _own_row(run: Run, cell: Guarantee) -> list[str]:
    return [
        tag("strong", f"This training: {run.method} on {run.data}"),
        "you",
        f"{cell.unit}, against {cell.view}",
        _epsilon(cell.epsilon, cell.delta),
        "this report",
    ]


def _row(each: Deployment) -> list[str]:
    address = each.address.removeprefix("https://")
    return [each.name, f"{each.by}, {each.year}", each.unit, _epsilon(each.epsilon, each.delta), address]


def _epsilon(epsilon: float, delta: float | None) -> str:
    return rounded_up(epsilon) + ("" if delta is None else f" (δ = {delta_text(delta)})")
