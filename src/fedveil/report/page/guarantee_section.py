"""The table of guarantees in full: what was composed, what it rests on, what the papers claim."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.report.model.run_facts import Cell, Options, Run
from fedveil.report.page.markup import Markup, details, join, listing, paragraph, table, tag
from fedveil.report.page.sentences import WHO, cell_of, delta_word, epsilon_word, shared_caveats, value_of

TERMS = (
    ("record, client", "of what a guarantee speaks: one example of one client, or everything that one client holds"),
    ("ε at δ", "whatever an adversary sees, its probability changes by at most a factor e^ε, up to δ"),
    ("gradient, update", "what one record, or a client's whole round of training, would change in the model"),
    ("clipping", "shortening such a change to a length of at most C, so that no one can change more"),
    (
        "add-or-remove, replace-one",
        "with and without the record or client, or with another in its place; numbers of different kinds"
        " cannot be compared",
    ),
    ("composition", "the mechanisms and how often they ran; z is the noise over what one unit can change"),
    ("PLD, RDP", "how it was certified: privacy loss distributions, or Rényi divergences; both round against us"),
    ("∞", "nothing is promised, for the reason given; never “not computed”"),
)


def guarantees(run: Run, options: Options) -> Markup:
    """Every cell, the caveats that all share, and the claims beside what holds."""
    cells = run.cells
    if cells is None:
        return paragraph("Neither what is promised nor what was spent is known.")
    shared = shared_caveats(cells)
    some = any(cell["epsilon"] != "inf" for cell in cells)
    both = run.spent is not None and run.promised is not None and not options.release
    headings = ["Of what × against whom", "ε" if not both else "ε spent", *(["ε promised"] if both else [])]
    headings += ["Composition, or why there is none", "What it rests on besides"]
    rows = [_row(alike, run, shared, both) for alike in _alike(cells, run.promised or ())]
    title = f"{'Spent' if both else 'Guaranteed'} at δ = {delta_word(run.delta)}, worst case over clients"
    found = [
        table(title, headings, rows, class_="wide stack"),
        *([paragraph("All of it rests on:"), listing(shared)] if shared and some else []),
        _claims(run),
        details("What the words mean", _terms()),
    ]
    return join(found)


def _alike(cells: Sequence[Cell], promised: Sequence[Cell]) -> list[list[Cell]]:
    """Cells of one unit that say the same in everything stand in one row."""
    found: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        other = cell_of(promised, cell["unit"], cell["view"])
        values = [epsilon_word(each["epsilon"]) for each in (cell, other) if each is not None]
        words = [str(cell[key]) for key in ("unit", "relation", "composition", "accountant", "reason")]
        found.setdefault((*values, *words, *cell["caveats"]), []).append(cell)
    return list(found.values())


def _row(alike: Sequence[Cell], run: Run, shared: list[str], both: bool) -> list[str]:
    cell = max(alike, key=value_of)
    name = join(
        [
            f"{cell['unit']} × {', '.join(each['view'] for each in alike)}",
            tag("span", "; ".join(WHO[each["view"]][0] for each in alike), class_="who"),
        ]
    )
    kind = "epsilon none" if cell["epsilon"] == "inf" else "epsilon"
    values = [tag("span", epsilon_word(cell["epsilon"]), class_=kind)]
    if both:
        promised = cell_of(run.promised or (), cell["unit"], cell["view"])
        values.append(tag("span", "–" if promised is None else epsilon_word(promised["epsilon"])))
    if cell["epsilon"] == "inf":
        return [name, *values, cell["reason"], ""]
    composed = join([cell["composition"], tag("span", f"{cell['relation']}; {cell['accountant']}", class_="who")])
    own = [caveat for caveat in cell["caveats"] if caveat not in shared]
    return [name, *values, composed, join([listing(own)]) if own else ""]


def _claims(run: Run) -> Markup:
    if not run.claims:
        return paragraph("No paper claims a number for this training.", class_="muted")
    rows = []
    for claim in run.claims:
        cells = run.promised or run.spent or ()
        mine = cell_of(cells, claim["unit"], claim["view"])
        rows.append(
            [
                f"{claim['unit']} × {claim['view']}",
                "∞" if claim["epsilon"] == "inf" else f"{claim['epsilon']:.4g}",
                "–" if mine is None else epsilon_word(mine["epsilon"]),
                claim["source"],
                claim["difference"],
            ]
        )
    headings = ["Of what × against whom", "ε claimed", "ε verified", "Claimed by", "Why they differ"]
    return table("What the paper claims for the whole training, beside what holds", headings, rows, class_="wide stack")


def _terms() -> Markup:
    return listing([join([tag("strong", word), f": {words}"]) for word, words in TERMS])
