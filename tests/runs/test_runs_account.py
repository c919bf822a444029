"""What a run promises, what it spends, and budgets that hold."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.accounting.budget import excludes
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.table import Table
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import SEEDED, CaveatKind, Guarantee, Relation
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.ledger.store import Ledger
from fedveil.report.terminal.guarantee_lines import client_lines
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs import round_by_round
from fedveil.runs.account import account, calibrate_spec
from fedveil.runs.budgeted_admission import Budgeted
from fedveil.runs.prepare import prepare
from fedveil.runs.run import resume, run

Settings = dict[str, Any]
SERVER = (Unit.RECORD, View.SERVER)
RELEASED = (Unit.RECORD, View.RELEASED)
CLIENT_RELEASED = (Unit.CLIENT, View.RELEASED)


class Noting(SilentReporter):
    """Remembers what it is told beside the rounds."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def epsilon(result: Any, unit: str = "record", view: str = "server") -> float:
    return float(result.of(Unit(unit), View(view)).epsilon)


def cohorts(directory: Path) -> list[tuple[int, ...]]:
    with Ledger(directory / "ledger.sqlite") as ledger:
        return [entry.cohort for entry in ledger.rounds()]


def test_everyone_in_every_round_spends_exactly_what_was_promised(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {**tiny, "cohort": "everyone"}
    result = run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    promise = plan(prepare(resolve("fed-cdp", settings), blobs).context)
    for unit in Unit:
        for view in View:
            assert epsilon(result, unit, view) == promise.of(unit, view).epsilon


def test_a_client_drawn_less_often_spends_less_than_the_worst_case(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    result = run("fed-cdp", {**tiny, "cohort.size": 1}, out=tmp_path / "run", workers=1, dataset=blobs)
    promise = plan(prepare(resolve("fed-cdp", tiny), blobs).context)
    assert 0 < epsilon(result) <= promise.of(*SERVER).epsilon
    prepared = prepare(resolve("fed-cdp", {**tiny, "cohort.size": 1}), blobs)
    with Ledger(tmp_path / "run/ledger.sqlite") as ledger:
        own = replay(prepared.context, ledger.charges(), 4).per_client(*SERVER)
    drawn = Counter(client for cohort in cohorts(tmp_path / "run") for client in cohort)
    assert [value > 0 for value in own] == [drawn[client] > 0 for client in range(10)]


def test_a_run_without_privacy_promises_nothing(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    result = run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    assert {cell.epsilon for cell in result.guarantees} == {math.inf}
    stored = json.loads((tmp_path / "run/result.json").read_text())["guarantees"]
    assert tuple(Guarantee.from_dict(cell) for cell in stored) == result.guarantees


def test_a_seeded_run_is_marked_in_every_cell(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    for name, seed, marked in (("a", 1, True), ("b", "none", False)):
        result = run("fed-cdp", {**tiny, "seed": seed}, out=tmp_path / name, workers=1, dataset=blobs)
        assert all((SEEDED in cell.caveats) is marked for cell in result.guarantees)


def test_a_run_that_spends_more_than_it_promised_is_stopped(
    tiny: Settings, blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def modest(context: Context) -> Table:
        return plan(context, 1)

    monkeypatch.setattr(round_by_round, "plan", modest)
    with pytest.raises(FedveilError, match="more was spent than promised"):
        run("fed-cdp", {**tiny, "cohort": "everyone"}, out=tmp_path / "run", workers=1, dataset=blobs)
    assert not (tmp_path / "run/model.safetensors").exists()


def budgeted(tiny: Settings, rounds: int, **changes: Any) -> Settings:
    """A budget that lets a client take part exactly `rounds` times."""
    settings = {**tiny, "stop.rounds": 12, **changes}
    prepared = prepare(resolve("fed-cdp", settings), changes.pop("dataset", None) or BLOBS[0])
    exact = plan(prepared.context, rounds).of(*SERVER).epsilon
    return {**settings, "privacy.epsilon": exact * 1.0001}


BLOBS: list[Dataset] = []


@pytest.fixture(autouse=True)
def _remember(blobs: Dataset) -> None:
    BLOBS[:] = [blobs]


def test_a_client_without_budget_is_not_drawn_again_and_the_run_goes_on(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings, reporter = budgeted(tiny, rounds=3), Noting()
    result = run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs, reporter=reporter)
    taken = Counter(client for cohort in cohorts(tmp_path / "run") for client in cohort)
    assert taken == dict.fromkeys(range(10), 3)
    assert result.rounds == 8  # ten clients, three times each, four a round
    assert reporter.notes[-1].startswith(
        f"it ended after 8 of {settings['stop.rounds']} rounds: nobody could take part"
    )
    assert epsilon(result) <= settings["privacy.epsilon"]


def test_the_round_that_would_pass_the_budget_does_not_run(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    settings = budgeted(tiny, rounds=2, cohort="everyone")
    assert run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs).rounds == 2
    assert len(cohorts(tmp_path / "run")) == 2


def noise(sigma: float, unit: str, **more: Any) -> Settings:
    return {"clip": {"bound": 0.1}, "sigma": sigma, "noise": "sum", "unit": unit, **more}


def course(start: float, end: float) -> Settings:
    return {"kind": "linear", "start": start, "end": end}


TWO_PLACES: list[tuple[Settings, Settings, str, str]] = [
    (  # one mechanism's noise falls while the other's rises
        {
            "example": noise(20.0, "record", course=course(2.0, 0.2)),
            "upload": noise(40.0, "client", course=course(0.2, 2.0)),
        },
        {"cohort": "everyone", "stop.rounds": 20, "privacy.epsilon": 0.5},
        "record",
        "server",
    ),
    (  # the first round's reports of norms pass the server's noise by
        {
            "upload": noise(3.0, "client")
            | {"clip": {"bound": {"kind": "histogram", "start": 0.1, "sigma": 20.0, "every": 1000}, "by": "flat"}},
            "server": noise(8.0, "client"),
        },
        {"cohort": {"kind": "poisson", "rate": 0.3}, "stop.rounds": 40, "privacy.epsilon": 3.0},
        "client",
        "released",
    ),
]


@pytest.mark.parametrize(("places", "told", "unit", "view"), TWO_PLACES)
def test_a_budget_and_what_is_said_to_be_spent_go_by_the_same_rule_where_two_mechanisms_add_noise(
    tiny: Settings, blobs: Dataset, tmp_path: Path, places: Settings, told: Settings, unit: str, view: str
) -> None:
    plain = {"batch": {"kind": "all"}, "local.steps": 1, "privacy.unit": unit, "privacy.view": view}
    settings = {**tiny, **plain, **places, **told}
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    assert 0 < result.rounds < settings["stop.rounds"]
    assert 0.8 * settings["privacy.epsilon"] < epsilon(result, unit, view) <= settings["privacy.epsilon"]


def test_a_budget_over_coins_that_grow_to_everybody_is_kept_by_what_the_table_says(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {
        **tiny,
        "cohort": {"kind": "poisson", "rate": 0.5, "growth": course(1.0, 2.0)},
        "batch": {"kind": "all"},
        "local.steps": 1,
        "upload": noise(8.0, "client"),
        "stop.rounds": 8,
        "privacy.epsilon": 1.5,
        "privacy.unit": "client",
        "privacy.view": "released",
    }
    assert excludes(prepare(resolve("fedavg", settings), blobs).context)
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    assert 0.5 < epsilon(result, "client", "released") <= 1.5


def test_a_budget_that_a_later_round_can_not_keep_ends_the_run(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    falling = {"kind": "exponential", "start": 1.0, "end": 0.001}
    settings = {
        **tiny,
        "data.records": 5,
        "cohort": "everyone",
        "batch": {"kind": "all"},
        "local.steps": 1,
        "example": noise(200.0, "record", course=falling),
        "privacy.epsilon": 2.0,
        "privacy.unit": "client",
    }
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    assert 0 < result.rounds < 4
    assert epsilon(result, "client") <= 2
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_a_run_whose_best_bound_is_another_mechanism_than_promised_still_comes_to_its_end(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    """Drawn seldom, clients spend little of a noise that, over many rounds, another one with another relation beats."""
    settings = {
        **tiny,
        "data.clients": 30,
        "data.records": 10,
        "cohort.size": 3,
        "batch": {"kind": "without-replacement", "size": 1},
        "local.steps": 1,
        "stop.rounds": 12,
        "example": noise(2.0, "record"),
        "upload": noise(8.0, "client"),
    }
    promise = plan(prepare(resolve("fedavg", settings), blobs).context).of(*SERVER)
    result = run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    spent = result.of(*SERVER)
    assert (promise.relation, spent.relation) == (Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE)
    assert spent.epsilon < promise.epsilon


HIDDEN = {"cohort": {"kind": "poisson", "rate": 0.5}, "batch": {"kind": "poisson", "size": 5}}


def test_a_budget_against_a_hidden_cohort_ends_the_run_for_everybody(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    """Also where no single client took part often enough to have spent it."""
    settings = {**tiny, **HIDDEN, "cohort.rate": 0.1, "stop.rounds": 8, "privacy.view": "released"}
    prepared = prepare(resolve("fed-cdp", settings), blobs)
    two, three = (plan(prepared.context, rounds).of(*RELEASED).epsilon for rounds in (2, 3))
    budget = {**settings, "privacy.epsilon": (two + three) / 2}
    result = run("fed-cdp", budget, out=tmp_path / "run", workers=1, dataset=blobs)
    assert result.rounds == len(cohorts(tmp_path / "run")) == 2
    assert epsilon(result, view="released") == two


def test_a_repeated_round_costs_a_hidden_cohort_again(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    settings = {**tiny, **HIDDEN, "seed": "none"}
    with pytest.MonkeyPatch.context() as patch:
        die_after_paying(patch, round=1)
        with pytest.raises(KeyboardInterrupt):
            run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    result = resume(tmp_path / "run", workers=1, dataset=blobs)
    assert result.rounds == 4
    five = plan(prepare(resolve("fed-cdp", settings), blobs).context, 5).of(*RELEASED).epsilon
    assert epsilon(result, view="released") == five
    accounted = account(tmp_path / "run").spent
    assert accounted is not None
    assert accounted.of(*RELEASED).epsilon == five


def test_a_server_budget_that_may_leave_clients_out_promises_readers_no_amplification(
    tiny: Settings, blobs: Dataset
) -> None:
    settings = {**tiny, **HIDDEN, "privacy.epsilon": 100.0, "privacy.view": "server"}
    table = plan(prepare(resolve("fed-cdp", settings), blobs).context)
    free = plan(prepare(resolve("fed-cdp", {**settings, "privacy.epsilon": "none"}), blobs).context)
    assert table.of(*RELEASED).epsilon == table.of(*SERVER).epsilon > free.of(*RELEASED).epsilon


def test_calibrated_noise_keeps_its_budget_where_that_may_leave_clients_out(tiny: Settings, blobs: Dataset) -> None:
    """A cohort that grows to everybody ends the hidden draw, and with it the amplification."""
    grown = {"kind": "poisson", "rate": 0.1, "growth": {"kind": "linear", "start": 1.0, "end": 10.0}}
    settings = {
        **tiny, "cohort": grown, "batch": {"kind": "poisson", "size": 5}, "privacy.epsilon": 1.0,
        "privacy.calibrate": True, "privacy.view": "released",
    }  # fmt: skip
    prepared = prepare(resolve("fed-cdp", settings), blobs)
    assert excludes(prepared.context)
    assert 0.99 < plan(prepared.context).of(*RELEASED).epsilon <= 1.0


def die_after_paying(patch: pytest.MonkeyPatch, round: int = 0, *, empty: bool = False) -> None:
    """Interrupt a run when this round has been paid for; `empty`: by nobody, as a Poisson cohort may be."""
    original = Ledger.charge

    def dying(self: Ledger, at: int, cohort: Any, charges: Any) -> None:
        last = at == round
        original(self, at, [] if last and empty else cohort, [] if last and empty else charges)
        if last:
            raise KeyboardInterrupt

    patch.setattr(Ledger, "charge", dying)


def test_an_interrupted_budgeted_run_remembers_what_was_spent(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    settings = {**budgeted(tiny, rounds=2, cohort="everyone"), "seed": "none"}
    with pytest.MonkeyPatch.context() as patch:
        die_after_paying(patch)
        with pytest.raises(KeyboardInterrupt):
            run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    result = resume(tmp_path / "run", workers=1, dataset=blobs)
    assert result.rounds == 1  # the lost attempt was paid for
    assert len(cohorts(tmp_path / "run")) == 2
    assert epsilon(result) <= settings["privacy.epsilon"]


def test_a_last_round_that_was_paid_for_but_lost_counts_as_spent(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {**budgeted(tiny, rounds=2, cohort="everyone"), "seed": "none"}
    with pytest.MonkeyPatch.context() as patch:
        die_after_paying(patch, round=1)
        with pytest.raises(KeyboardInterrupt):
            run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    result = resume(tmp_path / "run", workers=1, dataset=blobs)
    assert result.rounds == 1
    assert epsilon(result) == pytest.approx(settings["privacy.epsilon"], rel=1e-3)


def test_a_lost_last_round_in_which_nobody_was_drawn_does_not_keep_a_run_from_its_end(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    """Three rounds are paid for: two that are published, and one without a client that is lost."""
    settings = {**budgeted(tiny, rounds=2, cohort="everyone"), "seed": "none"}
    with pytest.MonkeyPatch.context() as patch:
        die_after_paying(patch, round=2, empty=True)
        patch.setattr(Budgeted, "candidates", lambda self, round: list(range(10)))
        with pytest.raises(KeyboardInterrupt):
            run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    result = resume(tmp_path / "run", workers=1, dataset=blobs)
    assert result.rounds == 2
    assert result.receipts == 20
    assert epsilon(result) == pytest.approx(settings["privacy.epsilon"], rel=1e-3)


def test_the_ledger_says_which_rounds_were_executed_beside_what_was_charged(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        die_after_paying(patch)
        with pytest.raises(KeyboardInterrupt):
            run("fed-cdp", {**tiny, "seed": "none"}, out=tmp_path / "run", workers=1, dataset=blobs)
    assert resume(tmp_path / "run", workers=1, dataset=blobs).receipts == 16
    with Ledger(tmp_path / "run/ledger.sqlite") as ledger:
        assert (len(ledger.receipts()), len(ledger.charges())) == (16, 20)
        assert all(receipt.confirmed for receipt in ledger.receipts())
        assert [(entry.round, entry.executed) for entry in ledger.rounds()] == [
            (0, False),
            (0, True),
            (1, True),
            (2, True),
            (3, True),
        ]


def test_a_round_is_paid_for_before_its_clients_hear_of_it(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:

        def dying(*arguments: Any, **keywords: Any) -> Any:
            raise KeyboardInterrupt

        patch.setattr("fedveil.engine.batched.local_work", dying)
        with pytest.raises(KeyboardInterrupt):
            run("fed-cdp", {**tiny, "seed": "none"}, out=tmp_path / "run", workers=1, dataset=blobs)
    with Ledger(tmp_path / "run/ledger.sqlite") as ledger:
        (drawn,) = ledger.rounds()
        assert not drawn.executed
        assert tuple(charge.client for charge in ledger.charges()) == drawn.cohort
        assert ledger.receipts() == []


def test_receipts_of_a_finished_run_are_confirmed_and_hold_no_function_of_the_noise(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    first, second = ({**tiny, "seed": seed} for seed in (1, 2))
    seen = []
    for name, settings in (("a", first), ("b", second)):
        run("fed-cdp", {**settings, "cohort": "everyone"}, out=tmp_path / name, workers=1, dataset=blobs)
        with Ledger(tmp_path / name / "ledger.sqlite") as ledger:
            seen.append(ledger.receipts())
    assert all(receipt.confirmed for receipt in seen[0])
    assert seen[0] == seen[1]  # other noise, the same receipts


def test_a_run_on_ones_own_records_is_accounted_as_it_was_whatever_their_name(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {**tiny, "data.name": "cancer", "batch": {"kind": "poisson", "size": 5}, "cohort": "everyone"}
    mine = replace(blobs, name="cancer")  # the built-in one has other records in every client
    result = run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=mine)
    found = account(tmp_path / "run")
    assert found.spent is not None
    assert found.promised.of(*SERVER).epsilon == found.spent.of(*SERVER).epsilon == epsilon(result)
    assert found.context.population.records == (30,) * 10


def test_the_promise_on_ones_own_records_can_be_read_before_training_on_them(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    before = account("fed-cdp", tiny, dataset=blobs)
    assert before.spent is None
    assert before.context.population.records == (30,) * 10
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    assert account(tmp_path / "run").promised == before.promised


def test_a_context_that_was_changed_afterwards_is_not_taken(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    about = json.loads((tmp_path / "run/run.json").read_text())
    about["terms"]["records_of_clients"] = [[3000, 10]]
    (tmp_path / "run/run.json").write_text(json.dumps(about))
    with pytest.raises(FedveilError, match="changed after the run began"):
        account(tmp_path / "run")


def test_accounting_a_run_without_its_ledger_is_refused(tmp_path: Path) -> None:
    run("fed-cdp", {"data.name": "cancer"}, rounds=1, out=tmp_path / "run", workers=1)
    assert account(tmp_path / "run").spent is not None
    (tmp_path / "run/ledger.sqlite").unlink()
    with pytest.raises(FedveilError, match="the ledger is missing"):
        account(tmp_path / "run")


def test_printed_numbers_are_never_below_the_certificate() -> None:
    assert rounded_up(6.32231) == "6.323"
    assert rounded_up(0.453) == "0.453"
    assert rounded_up(25.0600001) == "25.07"
    assert rounded_up(123456.0) == "1.235e+05"
    assert rounded_up(math.inf) == "∞"
    assert rounded_up(0.0) == "0"
    cell = Guarantee(*SERVER, Relation.ADD_OR_REMOVE, 7.74649, 1e-5, "PLD", "3 × Gaussian(z = 1)")
    assert "ε = 7.747 " in str(cell)
    spent = " ".join(line.strip() for line in client_lines(*SERVER, [7.74649, 0, 0.10001]))
    assert spent.endswith("least ε = 0, median 0.1001, most 7.747; 1 of 3 have spent nothing")


def test_a_budget_that_cannot_be_kept_is_refused_before_the_first_round(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    for method, view in (("fedavg", "server"), ("fed-cdp", "server")):
        unit = "record" if method == "fedavg" else "client"
        settings = {**tiny, "privacy.epsilon": 1.0, "privacy.view": view, "privacy.unit": unit}
        with pytest.raises(FedveilError, match="budget"):
            run(method, settings, out=tmp_path / method, workers=1, dataset=blobs)
        assert not (tmp_path / method / "model.safetensors").exists()


def test_copies_of_records_are_stated_with_what_all_of_them_cost(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    shared = {**tiny, "data.clients": 20, "cohort": "everyone"}  # 300 records, 30 each: every record twice
    shared |= {"example.each_row": True}
    result = run("fed-cdp", shared, out=tmp_path / "run", workers=1, dataset=blobs)
    alone = run("fed-cdp", {**shared, "data.clients": 10}, out=tmp_path / "alone", workers=1, dataset=blobs)
    assert epsilon(result) == epsilon(alone)
    stated = [cell for cell in result.guarantees if cell.caveat(CaveatKind.ONE_COPY) is not None]
    assert [(cell.unit, cell.view) for cell in stated] == [(Unit.RECORD, view) for view in View]
    context = prepare(resolve("fed-cdp", {**shared, "data.clients": 10}), blobs).context
    twice = plan(context, 2 * 4).of(*SERVER)  # where every client noises for itself, two copies cost twice the rounds
    for cell in stated:
        assert cell.together is not None
        assert cell.together > 1.2 * cell.epsilon
        text = next(caveat.text for caveat in cell.caveats if caveat.kind is CaveatKind.ONE_COPY)
        assert text.endswith(f"for all copies together ε = {rounded_up(cell.together)}")
    assert result.of(*SERVER).together == pytest.approx(twice.epsilon)
    assert not any(cell.caveat(CaveatKind.NO_COPIES) for cell in result.guarantees)
    assert all(cell.caveat(CaveatKind.NO_COPIES) and cell.together is None for cell in alone.guarantees)


TWO_NOISES = {
    "method": "fedavg",
    "data": {"name": "cancer", "clients": 40, "records": 100, "partition": "random"},
    "cohort": {"kind": "fixed", "size": 6},
    "batch": "all",
    "local": {"steps": 1},
    "example": {"clip": {"bound": 1.0}, "sigma": 8.0},
    "upload": {"clip": {"bound": 1.0}, "sigma": 4.0, "unit": "client"},
    "stop": {"rounds": 30},
}


def test_what_all_copies_cost_is_said_under_the_relation_of_the_cell() -> None:
    found = account(TWO_NOISES)
    cell, other = found.promised.of(*RELEASED), found.promised.under(Relation.ADD_OR_REMOVE, *RELEASED)
    assert cell.relation is Relation.REPLACE_ONE
    assert cell.together is not None
    assert other.together is not None
    assert other.together < 12 < 100 < cell.together


def test_a_calibrated_spec_keeps_its_target() -> None:
    settings = {"data.name": "cancer", "batch": {"kind": "poisson", "size": 8}, "cohort.most": 2}
    found, spec = calibrate_spec("fed-cdp", settings, Budget(1.0, 1e-5), "noise")
    assert 0.99 < found.guarantee.epsilon <= 1.0
    assert spec.method.example is not None
    assert spec.method.example.sigma == found.value
