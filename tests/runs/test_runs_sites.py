"""Runs whose clients are named sites of unequal sizes."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.data.own_sites import from_sites
from fedveil.report.terminal.run_progress import ConsoleReporter
from fedveil.runs.account import account
from fedveil.runs.files import RunFiles
from fedveil.runs.manifest import context_record, read_context
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import prepare
from fedveil.runs.result_lines import result_lines
from fedveil.runs.run import resume, run
from fedveil.studies.attack import attack
from fedveil.studies.audit import audit
from fedveil.studies.report import report

SIZES = {"north": 40, "south": 12, "<west> & co": 80}


def blob(count: int, seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    return generator.normal(size=(count, 4)) + labels[:, None], labels


@pytest.fixture
def hospitals() -> Dataset:
    return from_sites({name: blob(size, size) for name, size in SIZES.items()}, name="hospitals")


PRIVATE: dict[str, Any] = {"stop.rounds": 2, "local.steps": 2, "batch": {"kind": "poisson", "size": 5}}


def test_the_clients_of_a_run_are_the_sites_of_its_records(hospitals: Dataset, tmp_path: Path) -> None:
    prepared = prepare(resolve_for("fed-cdp", PRIVATE, hospitals), hospitals)
    assert prepared.context.population.names == tuple(SIZES)
    assert prepared.context.population.records == (30, 9, 60)
    assert (prepared.spec.data.clients, prepared.spec.data.partition.kind) == (3, "sites")
    assert read_context(prepared.spec, context_record(prepared.context)) == prepared.context
    result = run("fed-cdp", PRIVATE, out=tmp_path / "run", workers=1, dataset=hospitals)
    assert result.rounds == 2
    assert resume(tmp_path / "run", dataset=hospitals).rounds == 2


def test_the_account_of_a_run_needs_no_records_and_knows_the_sites(hospitals: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", PRIVATE, out=tmp_path / "run", workers=1, dataset=hospitals)
    found = account(tmp_path / "run")
    assert found.context.population.names == tuple(SIZES)
    assert "3 sites with 9 to 60 records each" in found.title


def test_every_site_s_own_epsilon_is_told_at_the_start_at_the_end_and_in_the_account(
    hospitals: Dataset, tmp_path: Path
) -> None:
    said = StringIO()
    settings = PRIVATE | {"example.sigma": 20.0}
    with ConsoleReporter(Console(file=said)) as reporter:
        result = run("fed-cdp-batch", settings, out=tmp_path / "run", workers=1, dataset=hospitals, reporter=reporter)
    before, begun, _ = said.getvalue().partition("round 1/2")
    assert begun
    assert "site         records  ε promised" in before
    assert "<west> & co" in before
    ended = "\n".join(result_lines(result))
    assert "site         records  rounds  ε promised  ε spent" in ended
    assert "<west> & co" in ended
    found = result.site_guarantees
    assert found is not None
    assert [(site.name, site.records, site.rounds) for site in found.sites] == [
        ("north", 30, 2), ("south", 9, 2), ("<west> & co", 60, 2),
    ]  # fmt: skip
    spent = {site.name: site.spent for site in found.sites}
    assert spent["<west> & co"] < spent["north"] < spent["south"] == result.of(Unit.RECORD, View.SERVER).epsilon
    assert account(tmp_path / "run").sites == found
    assert account(tmp_path / "run").to_dict()["sites"] == found.to_dict()
    assert resume(tmp_path / "run").site_guarantees == found
    assert json.loads(RunFiles(tmp_path / "run").result.read_text())["site_guarantees"] == found.to_dict()


def test_a_report_names_the_sites_and_one_for_release_does_not_say_how_often_they_took_part(
    hospitals: Dataset, tmp_path: Path
) -> None:
    run("fed-cdp-batch", PRIVATE, out=tmp_path / "run", workers=1, dataset=hospitals)
    report([tmp_path / "run"], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Each site" in page
    assert "&lt;west&gt; &amp; co" in page
    assert "<west>" not in page
    report([tmp_path / "run"], tmp_path / "release.html", release=True)
    assert "Each site" not in (tmp_path / "release.html").read_text()


def test_other_records_under_the_same_sites_are_refused(hospitals: Dataset, tmp_path: Path) -> None:
    run("fedavg", PRIVATE, out=tmp_path / "run", workers=1, dataset=hospitals)
    RunFiles(tmp_path / "run").result.unlink()
    others = from_sites({name: blob(size, size + 1) for name, size in SIZES.items()}, name="hospitals")
    with pytest.raises(FedveilError, match="records"):
        resume(tmp_path / "run", dataset=others)


def test_simulated_clients_can_be_made_of_the_same_records(hospitals: Dataset, tmp_path: Path) -> None:
    simulated = {"data.partition": "random", "data.clients": 9, "data.records": "none", "cohort.kind": "everyone"}
    prepared = prepare(resolve_for("fedavg", PRIVATE | simulated, hospitals), hospitals)
    assert prepared.context.population.records == (11,) * 9
    assert prepared.context.population.names == ()


def test_a_number_of_clients_that_is_not_that_of_the_sites_is_refused(hospitals: Dataset) -> None:
    with pytest.raises(FedveilError, match=r"data\.clients: the data set 'hospitals' has 3 sites, not 5"):
        prepare(resolve_for("fedavg", {"data.clients": 5}, hospitals), hospitals)


def test_a_batch_that_is_too_large_names_the_site(hospitals: Dataset) -> None:
    with pytest.raises(FedveilError, match=r"batch\.size: a batch of 20 is larger than site 'south', which holds 9"):
        prepare(resolve_for("fedavg", {"batch.size": 20}, hospitals), hospitals)


class Words(nn.Module):
    """The mean of embedded tokens, and a linear layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(50, 4), nn.Linear(4, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.linear(self.embedding(tokens).mean(dim=-2))  # type: ignore[no-any-return]


def words(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return Words(classes)


def texts() -> Dataset:
    generator = np.random.default_rng(1)
    sites = {name: (generator.integers(0, 50, (30, 6)), np.arange(30) % 2) for name in ("one", "two")}
    return from_sites(sites, name="texts")


@pytest.mark.parametrize("method", ["fedavg", "fed-cdp"])
def test_tokens_are_trained_on(method: str, tmp_path: Path) -> None:
    settings = PRIVATE | {"model.name": f"{__name__}:words"}
    result = run(method, settings, out=tmp_path / "run", workers=1, dataset=texts())
    assert result.rounds == 2
    assert torch.isfinite(torch.tensor(result.loss))


def test_a_network_for_numbers_is_refused_for_tokens() -> None:
    with pytest.raises(
        FedveilError, match=r"model: mlp does not take records of whole numbers \(tokens; plain numbers"
    ):
        prepare(resolve_for("fedavg", {"model.name": "mlp"}, texts()), texts())


def test_tokens_are_neither_attacked_nor_audited() -> None:
    settings = PRIVATE | {"model.name": f"{__name__}:words"}
    with pytest.raises(FedveilError, match="records are tokens, and a canary is made of numbers"):
        audit("fed-cdp", settings, dataset=texts(), workers=1)
    with pytest.raises(FedveilError, match="records are tokens, and these attacks reconstruct numbers"):
        attack("fedavg", settings, dataset=texts(), workers=1)


def test_sites_can_be_audited_and_attacked(hospitals: Dataset) -> None:
    result = audit("fed-cdp", PRIVATE, dataset=hospitals, workers=1, unit=Unit.RECORD, view=View.SERVER)
    assert result.canaries == 3
    assert attack("fedavg", {"batch.size": 1}, dataset=hospitals, victims=2, workers=1).to_dict()["victims"] == 2
