"""A report on runs, finished or not: gather the facts, leave out what the page may not show, write one file."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedveil.accounting.claims import claims
from fedveil.accounting.context import Context
from fedveil.accounting.plan import plan
from fedveil.accounting.table import Table, releasable_cells
from fedveil.config.data_spec import without_folders
from fedveil.core.atomic import write_whole
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import CaveatKind, Guarantee
from fedveil.core.openness import OWN_TESTS
from fedveil.core.scores import FIGURES, Scores
from fedveil.core.tasks import read_task
from fedveil.core.verdicts import Verdict
from fedveil.ledger.chain import SHORT_HEAD
from fedveil.report.model.evidence_facts import AuditFacts
from fedveil.report.model.federation_facts import FederationFacts
from fedveil.report.model.run_facts import Options, Run
from fedveil.report.model.verdict_sentence import risk_of_cell
from fedveil.report.page.html_page import page_html
from fedveil.runs.describe import clients_words, clip_words, training_words
from fedveil.runs.evidence import read_attacks, read_audits
from fedveil.runs.read import Reading, read_run
from fedveil.runs.result import executed_cells
from fedveil.studies.cell_risks import certificate_facts, sites_of
from fedveil.studies.certificate_texts import trust_sentences, uncovered_sentences
from fedveil.studies.histories import expanded, names_of
from fedveil.studies.spending_facts import clients_of, epsilon_lines
from fedveil.zoo import ZOO

MOST_REPORTED = 50
"""More runs than this nobody reads on one page."""

PUBLIC_EVENTS, MEASURED = ("event", "round"), ("loss", "majority", *FIGURES)
"""What of an event follows from the published models alone, and from them and the validation records."""


@dataclass(frozen=True)
class Report:
    """Where the page is, and what it speaks of."""

    path: Path
    runs: tuple[Run, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "report": str(self.path),
            "runs": [
                {
                    "name": run.name,
                    "state": run.status.state,
                    "rounds": run.status.published,
                    "planned": run.status.planned,
                    "attacks": len(run.attacks),
                    "audits": len(run.audits),
                    "problems": list(run.problems),
                }
                for run in self.runs
            ],
        }


def report(
    directories: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    pictures: bool = True,
    release: bool = False,
    federations: Mapping[Path, FederationFacts] | None = None,
) -> Report:
    """One self-contained page about runs; the directory of a comparison or a sweep stands for all its runs.

    `federations` has what is known of the sites behind a run, by the run's directory. `release` leaves out whatever is
    computed from clients' records outside the guarantee, or tells who took part.
    """
    path = Path(out)
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentError("out", f"{path} can't be written ({'is' if path.is_dir() else 'is not in'} a directory)")
    paths = expanded(directories)
    if len(paths) > MOST_REPORTED:
        raise FedveilError(f"{len(paths)} runs are too many for one page; name at most {MOST_REPORTED}")
    runs = tuple(
        _of_federation(
            run_facts(read_run(directory), name, release=release), (federations or {}).get(directory), release
        )
        for directory, name in zip(paths, names_of(paths), strict=True)
    )
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page_html(runs, Options(pictures=pictures, release=release), made=made, version=version("fedveil"))
    write_whole(path, text.encode())
    return Report(path, runs)


def _of_federation(run: Run, facts: FederationFacts | None, release: bool) -> Run:
    """A run of real sites is called as their plan. For release nothing is said of who answered."""
    return run if facts is None else replace(run, name=facts.plan, federation=None if release else facts)


def run_facts(read: Reading, name: str, *, release: bool = False) -> Run:
    """Everything that the page says about one run."""
    spec, budget = read.spec, read.spec.privacy.budget
    context = read.accountable
    promise = None if context is None else plan(context)
    table = read.spent()
    attacks, failed = read_attacks(read.files)
    audits, failed_audits = read_audits(read.files)
    scores = _scores(read)
    if release:
        _check_releasable(name, read, context, audits, failed_audits)
    run = Run(
        name=name,
        method=spec.base,
        paper=ZOO[spec.base].paper,
        data=spec.data.name,
        data_words=str(read.manifest.get("data", "")),
        clients_words=clients_words(spec, context),
        model=spec.model.name,
        parameters=_whole(read.manifest.get("parameters")),
        validation=_whole(read.manifest.get("validation")),
        training_words=tuple(training_words(spec)),
        status=read.status,
        delta=spec.privacy.delta,
        seeded=spec.seed is not None,
        diverged=read.diverged,
        promised=None if promise is None else promise.guarantees,
        spent=_stored_cells(read) if table is None else table.guarantees,
        claims=() if context is None else claims(context),
        rounds=tuple(read.events),
        epsilon_lines=epsilon_lines(read, context, table, promise, release),
        epsilon_lines_spent=table is not None and not release,
        budget=None if budget is None else (budget.epsilon, budget.cell),
        clients=None if release else clients_of(read, context, promise, table),
        clips=tuple(clip_words(spec)),
        attacks=tuple(attacks),
        audits=tuple(audits),
        problems=tuple(read.problems) if release else (*read.problems, *failed, *failed_audits),
        spec=read.spec_text,
        command="fedveil run spec.toml --out again"
        if spec.data.reproducible
        else "fedveil.run('spec.toml', out='again', dataset=…)",
        environment=_environment(read),
        task=read_task(read.manifest.get("task")),
        scores=scores,
    )
    shown = _for_release(run, read, promise, table) if release else run
    return _with_risks(shown, read, promise if release or table is None else table, release=release)


def _with_risks(run: Run, read: Reading, table: Table | None, *, release: bool) -> Run:
    """The same with what its cells mean, who is relied on and what is not covered: from the cells that it shows."""
    cells = run.guarantees or ()
    return replace(
        run,
        risks=tuple(risk_of_cell(cell) for cell in cells),
        sites=() if table is None else sites_of(table),
        trust=trust_sentences(tuple(read.spec.method.mechanisms), cells),
        not_covered=uncovered_sentences(cells),
        certificate=certificate_facts(read.files.directory, release=release),
    )


def _check_releasable(
    name: str, read: Reading, context: Context | None, audits: Sequence[AuditFacts], failed_audits: Sequence[str]
) -> None:
    """Refuse to release what can't be checked, or what an audit has broken."""
    if context is None or read.book is None:  # nothing else holds a run to its spec
        why = "; ".join(read.problems) or "what was promised is not known"
        raise ArgumentError("for_release", f"{name}: what is guaranteed can't be checked ({why})")
    if failed_audits:
        raise ArgumentError("for_release", f"{name}: an audit may have broken the promise ({failed_audits[0]})")
    if any(audit.verdict is Verdict.CONTRADICTED for audit in audits):
        raise ArgumentError(
            "for_release", f"{name}: an audit broke the promise, so there is nothing to release it with"
        )


def _for_release(run: Run, read: Reading, promise: Table | None, table: Table | None) -> Run:
    """What was declared, what is guaranteed, and what follows from the published models.

    A cell that was promised is stated as promised: what was spent tells how often clients were drawn. Only where
    repeated rounds cost more than the promise is the larger number stated. Audits against a view of clients' work use
    planted records alone; one against the released models trains on the real ones. What was measured on validation
    records stays, unless these were declared private; what was measured on those of single sites stays only if they
    were declared public.
    """
    cells = run.promised
    kinds = {caveat.kind for cell in cells or () for caveat in cell.caveats if caveat != OWN_TESTS}
    measured = CaveatKind.PRIVATE_EVALUATION not in kinds
    hidden = CaveatKind.PRIVATE_STATISTICS in kinds  # then names of classes, and a number's range, may be private
    scores = run.scores if measured and not hidden else None
    if scores is not None and CaveatKind.UNDECLARED in kinds:  # a site's figures are those of its own few records
        scores = replace(scores, sites=())
    figures = tuple(key for key in MEASURED if not (hidden and key in FIGURES and FIGURES[key].in_unit))
    shown = PUBLIC_EVENTS + (figures if measured else ())
    if promise is not None and table is not None:
        cells = releasable_cells(promise, table)
    shown_spec = replace(read.spec, data=without_folders(read.spec.data))
    spec = run.spec if shown_spec == read.spec else shown_spec.to_toml()
    if run.seeded:
        spec = replace(shown_spec, seed=None).to_toml()
    return replace(
        run,
        name=re.sub(r"-seed\d+", "", Path(run.name).name) if run.seeded else Path(run.name).name,
        promised=cells,
        spent=None,
        status=replace(run.status, begun=None, repeated=0),
        rounds=tuple({key: event[key] for key in shown if key in event} for event in run.rounds),
        scores=scores,
        attacks=(),
        audits=tuple(audit for audit in run.audits if audit.view.adversary.of_clients_work),
        spec=spec,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _scores(read: Reading) -> Scores | None:
    """How good the last model is, as the run said at its end; older runs kept none."""
    stored = None if read.result is None else read.result.get("scores")
    try:
        return None if stored is None else Scores.from_dict(stored)
    except (KeyError, TypeError, ValueError):
        read.problems.append("result.json: how good the model is can't be read")
        return None


def _stored_cells(read: Reading) -> tuple[Guarantee, ...] | None:
    """What the run itself said at its end, where the table can't be computed again for want of its data set."""
    stored = None if read.result is None or read.book is None else read.result.get("guarantees")
    if not isinstance(stored, list) or not stored or read.context is not None:
        return None
    try:
        cells = executed_cells((Guarantee.from_dict(cell) for cell in stored), read.spec.method)
    except (KeyError, TypeError, ValueError):
        read.problems.append("result.json: what was spent can't be read")
        return None
    if any(cell.caveat(CaveatKind.UNTYPED) is not None for cell in cells):
        read.problems.append("result.json: kept by fedveil 0.1, whose caveats only that version can weigh")
        return None
    return cells


def _environment(read: Reading) -> dict[str, str]:
    keys = {"begun": "created", "machine": "machine", "fedveil": "fedveil", "python": "python", "torch": "torch"}
    keys |= {"dp-accounting": "dp_accounting", "randomness": "randomness"}
    known = {name: str(read.manifest[key]) for name, key in keys.items() if key in read.manifest}
    if read.book is not None:
        head = read.book.summary.head
        known["ledger"] = "not chained (an older format)" if head is None else f"head {head[:SHORT_HEAD]}"
    return known | ({"begun": known["begun"].replace("T", " ").replace("+00:00", " UTC")} if "begun" in known else {})
