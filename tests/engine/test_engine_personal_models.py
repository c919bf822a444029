"""The clients' own models between rounds."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fedveil.core import digested_tensors
from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.data.dataset import Examples
from fedveil.engine.client import Statistics, Upload
from fedveil.engine.job import Job
from fedveil.engine.loop import rounds
from fedveil.engine.personal_models import PersonalModels
from fedveil.engine.server_state import initial_state
from fedveil.engine.sites import Sites
from fedveil.method import Method
from fedveil.parts.batches import FullBatch
from fedveil.parts.cohorts import Everyone, FixedSize
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.personal import Attention, Identity, Interpolated, Shared
from fedveil.parts.stopping import Stop
from fedveil.runtimes.local import LocalRuntime

SHARED = torch.tensor([1.0, 2.0])


def upload(client: int, update: Sequence[float], own_score: float | None = None) -> Upload:
    return Upload(client, torch.tensor(update), (), Statistics(1.0, (1.0,), 0), own_score=own_score)


def trained(directory: Path, *trainings: tuple[int, int]) -> PersonalModels:
    """Models after (round, client) trainings; the update of a training is (round, client)."""
    models = PersonalModels(Interpolated(0.5), directory)
    for round, client in trainings:
        models.keep(round, SHARED, upload(client, [float(round), float(client)], round / 10))
    return models


def refuse(*_: object, **__: object) -> None:
    """As PyTorch does where a file can't be opened."""
    raise RuntimeError("unable to open file in read-only mode: Input/output error (5)")


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_client_keeps_the_model_it_uploaded_and_a_newcomer_has_the_global_one(tmp_path: Path) -> None:
    models = trained(tmp_path, (0, 3))
    assert models.model(3, SHARED).tolist() == [1.0, 5.0]
    assert torch.equal(models.model(4, SHARED), SHARED)


def test_the_newest_model_counts_and_survives_a_restart(tmp_path: Path) -> None:
    trained(tmp_path, (0, 3), (2, 3), (1, 4))
    again = PersonalModels(Interpolated(0.5), tmp_path)
    again.rewind(3)
    assert again.model(3, SHARED).tolist() == [3.0, 5.0]
    assert again.model(4, SHARED).tolist() == [2.0, 6.0]
    assert again.own_score == pytest.approx((0.2 + 0.1) / 2)


def test_the_mean_score_does_not_depend_on_who_trained_first(tmp_path: Path) -> None:
    found, accuracies = set(), [0.1, 0.7, 0.2, 0.35, 0.95, 0.6]
    for name, order in (("a", [0, 1, 2, 3, 4, 5]), ("b", [5, 3, 1, 0, 2, 4]), ("c", [2, 4, 5, 1, 0, 3])):
        models = PersonalModels(Identity(), tmp_path / name)
        for client in order:
            models.keep(0, SHARED, upload(client, [0.0, 0.0], accuracies[client]))
        found.add(models.own_score)
    assert len(found) == 1
    assert found.pop() == pytest.approx(sum(accuracies) / 6)


def test_rewinding_gives_back_what_was_before_the_lost_rounds(tmp_path: Path) -> None:
    trained(tmp_path, (0, 3), (1, 4), (2, 3), (2, 5))
    again = PersonalModels(Interpolated(0.5), tmp_path)
    again.rewind(2)
    assert again.model(3, SHARED).tolist() == [1.0, 5.0]  # of round 0 again
    assert again.model(4, SHARED).tolist() == [2.0, 6.0]
    assert torch.equal(again.model(5, SHARED), SHARED)  # had trained in the lost round only
    assert again.own_score == pytest.approx((0.0 + 0.1) / 2)
    assert files(tmp_path) == ["0000003-000000.safetensors", "0000004-000001.safetensors"]
    again.rewind(0)
    assert files(tmp_path) == []
    assert again.own_score is None


def test_forgetting_leaves_one_file_for_each_client_the_newest(tmp_path: Path) -> None:
    models = trained(tmp_path, (0, 3), (1, 3), (2, 3), (1, 4))
    assert len(files(tmp_path)) == 4
    models.forget()
    assert files(tmp_path) == ["0000003-000002.safetensors", "0000004-000001.safetensors"]
    assert models.model(3, SHARED).tolist() == [3.0, 5.0]


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_crash_between_two_checkpoints_leads_back_to_the_first(forgotten: bool, tmp_path: Path) -> None:
    """Round 0 is safe and maybe tidied up; round 1 was trained, or half of it was, and its checkpoint never written."""
    models = trained(tmp_path, (0, 3), (0, 4))
    if forgotten:
        models.forget()
    models.keep(1, SHARED, upload(3, [9.0, 9.0]))
    half = tmp_path / ".0000004-000001.safetensors.321.part"  # of a process that was killed while it wrote
    half.write_bytes(b"half a mod")
    again = PersonalModels(Interpolated(0.5), tmp_path)
    again.rewind(1)
    assert again.model(3, SHARED).tolist() == [1.0, 5.0]
    assert again.model(4, SHARED).tolist() == [1.0, 6.0]
    assert not half.exists()
    again.keep(1, SHARED, upload(4, [7.0, 7.0]))
    assert again.model(4, SHARED).tolist() == [8.0, 9.0]


def test_a_crash_before_forgetting_leaves_nothing_older_behind(tmp_path: Path) -> None:
    trained(tmp_path, (0, 3), (1, 3), (1, 4))
    PersonalModels(Interpolated(0.5), tmp_path).rewind(2)
    assert files(tmp_path) == ["0000003-000001.safetensors", "0000004-000001.safetensors"]


def test_an_older_model_that_cannot_be_removed_is_an_error_of_one_line(tmp_path: Path) -> None:
    models = trained(tmp_path, (0, 3), (1, 3))
    old = tmp_path / "0000003-000000.safetensors"
    old.unlink()
    old.mkdir()
    with pytest.raises(FedveilError, match=r"0000003-000000\.safetensors: Is a directory$"):
        models.forget()


def test_a_model_that_cannot_be_written_stops_the_run_and_leaves_the_older_one(tmp_path: Path) -> None:
    models = trained(tmp_path, (0, 3))
    (tmp_path / "0000003-000001.safetensors").mkdir()  # where the next one should go
    with pytest.raises(FedveilError, match="directory"):
        models.keep(1, SHARED, upload(3, [9.0, 9.0], 0.9))
    assert models.model(3, SHARED).tolist() == [1.0, 5.0]
    assert models.own_score == 0.0


@pytest.mark.parametrize("damage", ["noise", "no way in"])
def test_a_model_that_cannot_be_read_stops_the_run_by_name(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = trained(tmp_path, (0, 3))
    if damage == "noise":
        (tmp_path / "0000003-000000.safetensors").write_bytes(b"no model")
    else:
        monkeypatch.setattr(digested_tensors, "safe_open", refuse)
    with pytest.raises(FedveilError, match=r"0000003-000000\.safetensors: the client's model is damaged"):
        models.model(3, SHARED)


@pytest.mark.parametrize("broken", [[float("nan"), float("inf")], [float("nan"), 3.0], [3e38, 3e38]])
def test_an_update_that_is_not_finite_leaves_the_client_with_the_shared_model(
    tmp_path: Path, broken: list[float]
) -> None:
    models = PersonalModels(Identity(), tmp_path)
    models.keep(0, SHARED, upload(1, broken))
    assert torch.equal(models.model(1, SHARED), SHARED)


def test_clients_start_from_their_helpers_in_the_order_in_which_they_are_asked_for(tmp_path: Path) -> None:
    models = trained(tmp_path, (0, 3), (0, 4))
    starts = models.starts(torch.tensor([10.0, 20.0]), [3, 4, 5])
    assert starts([5, 3]).tolist() == [[10.0, 20.0], [5.5, 12.5]]
    assert starts([4]).tolist() == [[5.5, 13.0]]


def test_the_mixtures_of_attention_are_over_the_whole_cohort_however_it_is_cut(tmp_path: Path) -> None:
    trained(tmp_path, (0, 3), (0, 4), (1, 7))
    rule = Attention(0.5)
    models = PersonalModels(rule, tmp_path)
    starts = models.starts(SHARED, [3, 4, 7])
    whole = starts([3, 4, 7])
    own = torch.stack([models.model(client, SHARED) for client in (3, 4, 7)])
    assert torch.equal(whole, rule.mixtures(own))
    assert torch.equal(torch.cat([starts([7]), starts([3, 4])]), whole[[2, 0, 1]])
    assert models.starts(SHARED, [])([]).shape[0] == 0


def test_one_shared_model_needs_no_place_and_personal_ones_need_it(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="personal: a method with one shared model keeps none"):
        PersonalModels(Shared(), tmp_path)
    (method, job, layout), _ = world(6, 3, Interpolated(0.5))
    with LocalRuntime(job, workers=1) as runtime, pytest.raises(FedveilError, match="personal: this method needs"):
        next(
            rounds(
                method,
                initial_state(method, torch.zeros(layout.size)),
                job.sites.population,
                layout,
                runtime,
                job.streams,
            )
        )


def world(clients: int, features: int, rule: Interpolated | Identity) -> tuple[tuple[Method, Job, Layout], Tensor]:
    """Clients with one record each and a linear model of 3·(features + 1) numbers."""
    generator = torch.Generator().manual_seed(1)
    examples = Examples(torch.randn(clients, features, generator=generator), torch.arange(clients) % 3)
    model = nn.Sequential(nn.Linear(features, 3))
    method = Method(
        cohort=Everyone() if clients > 100 else FixedSize(clients),
        batch=FullBatch(),
        local=LocalTraining(steps=1),
        personal=rule,
        stop=Stop(2),
    )
    sites = Sites(examples, torch.arange(clients), (1,) * clients)
    layout = Layout.of(model)
    return (method, Job(method, model, sites, examples, Streams.from_seed(1)), layout), layout.vector(model)


def storages() -> dict[int, int]:
    """How many numbers every tensor's memory holds, by its address."""
    tensors = [thing for thing in gc.get_objects() if type(thing) is Tensor]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // 4 for t in tensors}


class Weighed(PersonalModels):
    """Notes how many numbers live in tensors of the size of models whenever models are stored."""

    size: int
    most: int = 0
    others: frozenset[int] = frozenset()  # what was there before

    def keep(self, round: int, shared: Tensor, upload: Upload) -> None:
        super().keep(round, shared, upload)
        if round == 1 and upload.client in (500, 999):  # everybody has a model by now; looking takes its time
            stored = {where: size for where, size in storages().items() if where not in self.others}
            self.most = max(self.most, sum(size for size in stored.values() if size % self.size == 0))


@pytest.mark.slow
def test_the_models_of_a_thousand_clients_are_never_all_in_memory(tmp_path: Path) -> None:
    (method, job, layout), start = world(1_000, 199, Interpolated(0.5))
    models = Weighed(method.personal, tmp_path)
    models.size, models.others = layout.size, frozenset(storages())
    with LocalRuntime(job, workers=1, chunk=20) as runtime:
        state = initial_state(method, start)
        for closed in rounds(method, state, job.sites.population, layout, runtime, job.streams, personal=models):
            state = closed.state
            models.forget()
    assert len(files(tmp_path)) == 1_000
    assert 0 < models.most < 400 * layout.size  # a few chunks of 20, not 1,000
