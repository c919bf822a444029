"""The batched engine computes what one client after another would compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedveil.core.streams import Streams
from fedveil.core.types import CLIENTS_WORK, Taps, Unit, View
from fedveil.data.dataset import Examples
from fedveil.data.partitions import Dirichlet, FullCopy, Random, Shards, make_partition
from fedveil.engine import batched
from fedveil.engine.batched import Engine, alike
from fedveil.engine.client import NO_TAPS, Broadcast, Upload
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.job import Job
from fedveil.engine.layered import Layered
from fedveil.engine.layered.trial import layered
from fedveil.engine.plain import Plain
from fedveil.engine.server_state import initial_state
from fedveil.engine.sites import Sites
from fedveil.mechanisms.adaptive import Quantile
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant
from fedveil.method import Method
from fedveil.models.registry import MODELS, build, fixed_part
from fedveil.parts.batches import FullBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import FixedSize
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import AdaGrad, Adam, Momentum, Sgd
from fedveil.parts.stopping import Stop
from fedveil.zoo import FED_AVG, FED_CDP

CLIENTS, RECORDS, CLASSES = 6, 12, 4


def make_sites(shape: tuple[int, ...], partition: object = None) -> Sites:
    generator = torch.Generator().manual_seed(1)
    count = CLIENTS * RECORDS
    labels = torch.arange(count) % CLASSES
    examples = Examples(torch.rand(count, *shape, generator=generator), labels)
    made = make_partition(labels, labels, partition or Random(), CLIENTS, RECORDS, 0, seed=3)  # type: ignore[arg-type]
    return Sites.of(examples, made.clients)


def small(method: Method, **changes: object) -> Method:
    changes = {
        "cohort": FixedSize(CLIENTS),
        "batch": PartitionBatch(3),
        "local": LocalTraining(steps=5, rate=Constant(0.1)),
        "stop": Stop(2),
        **changes,
    }
    return replace(method, **changes)  # type: ignore[arg-type]


def quiet(method: Method, by: str = "layer", bound: float = 0.5, noise: str = "row") -> Method:
    return replace(method, example=Gaussian(clip=Clip(Constant(bound), by=by), sigma=0.0, noise=noise))


def uploads(
    method: Method,
    model: nn.Module,
    sites: Sites,
    path: str,
    chunk: int = CLIENTS,
    seed: int = 5,
    taps: Taps = NO_TAPS,
) -> list[Upload]:
    """The uploads of all clients, in the order of their numbers."""
    shape = sites.examples.inputs.shape[1:]
    paths: dict[str, Callable[[nn.Module], object]] = {
        "plain": Plain,
        "general": General,
        "fused": lambda m: Fused.build(m, tuple(shape)),
        "layered": lambda m: layered(m, tuple(shape)),
    }
    gradients = paths[path](model)
    assert isinstance(gradients, Plain | General | Fused | Layered)
    engine = Engine(Job(method, model, sites, sites.examples, Streams.from_seed(seed)), gradients)
    start = Broadcast(0, gradients.layout.vector(model), initial_state(method, torch.zeros(1)).bound)
    made = [
        upload
        for group in alike(method, sites, range(CLIENTS))
        for first in range(0, len(group), chunk)
        for upload in engine.train(start, group[first : first + chunk], taps)
    ]
    assert sorted(upload.client for upload in made) == list(range(CLIENTS))
    return sorted(made, key=lambda upload: upload.client)


def updates(made: list[Upload]) -> torch.Tensor:
    return torch.stack([upload.update for upload in made])


def assert_same(first: list[Upload], second: list[Upload]) -> None:
    scale = updates(first).abs().max()
    assert scale > 0
    assert (updates(first) - updates(second)).abs().max() / scale < 1e-5


IMAGES = (1, 16, 16)
PAPER_MODELS = [name for name in MODELS if name not in ("prifedsync-cifar",)]


def trained(model: nn.Module, sites: Sites) -> tuple[nn.Module, Sites]:
    """What is trained of a network, and the records as that part sees them."""
    parts = fixed_part(model)
    if parts is None:
        return model, sites
    return parts[1], replace(sites, examples=Examples(parts[0](sites.examples.inputs), sites.examples.labels))


@pytest.mark.parametrize("name", PAPER_MODELS)
@pytest.mark.parametrize("private", [False, True])
def test_every_model_trains_batched_as_it_does_plainly(name: str, private: bool) -> None:
    sites = make_sites(IMAGES)
    model = build(name, IMAGES, CLASSES, seed=1)
    method = small(FED_AVG, local=LocalTraining(steps=2, rate=Constant(0.1)))
    method = quiet(method) if private else method
    plain = uploads(method, model, sites, "plain")
    assert_same(plain, uploads(method, model, sites, "general"))
    assert_same(plain, uploads(method, *trained(model, sites), "fused"))


def test_the_deep_prifedsync_network_trains_batched_as_it_does_plainly() -> None:
    shape = (3, 24, 24)
    sites, model = make_sites(shape), build("prifedsync-cifar", shape, CLASSES, seed=1)
    method = quiet(small(FED_AVG, local=LocalTraining(steps=1)))
    assert_same(uploads(method, model, sites, "plain"), uploads(method, model, sites, "fused"))


def test_centred_inputs_agree() -> None:
    sites, model = make_sites(IMAGES), build("cnn", IMAGES, CLASSES, {"centre": True}, seed=1)
    method = quiet(small(FED_AVG))
    assert_same(uploads(method, model, sites, "plain"), uploads(method, model, sites, "fused"))
    assert_same(uploads(method, model, sites, "plain"), uploads(method, model, sites, "general"))


@pytest.mark.parametrize("partition", [Shards(2), Random(), Dirichlet(0.5), FullCopy()], ids=lambda p: p.kind)
@pytest.mark.parametrize("by", ["layer", "flat"])
def test_every_partition_and_clip_agrees(partition: object, by: str) -> None:
    sites, model = make_sites((7,), partition), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    method = quiet(small(FED_AVG), by=by)
    plain = uploads(method, model, sites, "plain")
    assert_same(plain, uploads(method, model, sites, "general"))
    assert_same(plain, uploads(method, model, sites, "fused"))


@pytest.mark.parametrize("optimiser", [Sgd(), Momentum(), Adam(), AdaGrad()], ids=lambda o: o.kind)
def test_every_local_optimiser_agrees(optimiser: object) -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5], "activation": "tanh"}, seed=1)
    local = LocalTraining(steps=4, optimiser=optimiser, rate=Constant(0.01), decay=0.01)  # type: ignore[arg-type]
    method = quiet(small(FED_AVG, local=local))
    assert_same(uploads(method, model, sites, "plain"), uploads(method, model, sites, "fused"))


@pytest.mark.parametrize(
    "batch", [PoissonBatch(3), PoissonBatch(3, cap=4), WithoutReplacement(3), PartitionBatch(5), FullBatch()], ids=str
)
def test_every_batch_sampler_agrees(batch: object) -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    method = quiet(small(FED_AVG, batch=batch))
    assert_same(uploads(method, model, sites, "plain"), uploads(method, model, sites, "fused"))


class Normalised(nn.Module):
    """Parts that the fused path does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.GroupNorm(2, 4), nn.GELU(), nn.Flatten())
        self.head = nn.Linear(4 * 7 * 7, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(inputs))


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("path", ["general", "layered"])
def test_a_module_of_the_users_own_trains_as_it_does_plainly(path: str, private: bool) -> None:
    sites, model = make_sites(IMAGES), Normalised()
    assert Fused.build(model, IMAGES) is None
    method = quiet(small(FED_AVG)) if private else small(FED_AVG)
    assert_same(uploads(method, model, sites, "plain"), uploads(method, model, sites, path))


ON_ROWS = replace(FED_CDP, example=replace(FED_CDP.example, each_row=True))  # type: ignore[type-var]


@pytest.mark.parametrize("path", ["fused", "general", "layered"])
@pytest.mark.parametrize("method", [FED_AVG, FED_CDP, ON_ROWS], ids=["plain", "private", "noise on every row"])
def test_a_clients_update_is_bit_identical_in_every_chunk_that_respects_the_tile(path: str, method: Method) -> None:
    sites, model = make_sites(IMAGES), build("cnn", IMAGES, CLASSES, {"activation": "sigmoid"}, seed=1)
    method = small(method)
    whole = uploads(method, model, sites, path)
    tile = 1 if path == "fused" else CLIENTS  # a cohort this small is one tile
    for chunk in (1, 2, 4, 5) if tile == 1 else (tile, 2 * tile):
        assert torch.equal(updates(whole), updates(uploads(method, model, sites, path, chunk=chunk)))


EVERY_PLACE = replace(
    FED_CDP,
    example=Gaussian(clip=Clip(Constant(1.0), by="layer"), sigma=1.0, noise="row", each_row=True),
    upload=Gaussian(clip=Clip(Quantile(0.5, sigma=5.0)), sigma=2.0, unit=Unit.CLIENT),
)


@pytest.mark.parametrize("path", ["fused", "general", "layered"])
def test_an_upload_carries_what_is_its_own_clients_whatever_the_chunk(path: str) -> None:
    sites, model = make_sites(IMAGES), build("cnn", IMAGES, CLASSES, {"activation": "sigmoid"}, seed=1)
    uneven = Sites(sites.examples, sites.indices[:69], (12, 12, 9, 12, 12, 12))
    taps, method = Taps(frozenset(CLIENTS_WORK), frozenset({0, 1})), small(EVERY_PLACE)
    # Paths other than the fused one compute whole tiles: small chunks are padded with clients that are dropped.
    for chunk in (1, 2, 4, CLIENTS):
        for upload, whole in zip(
            uploads(method, model, uneven, path, chunk, taps=taps),
            uploads(method, model, uneven, path, taps=taps),
            strict=True,
        ):
            client = whole.client
            assert upload.client == client
            assert upload.receipts == whole.receipts
            assert [(receipt.client, receipt.did.place) for receipt in upload.receipts] == [
                (client, "example"),
                (client, "upload"),
            ]
            assert upload.receipts[0].did.sampling.records == uneven.sizes[client]
            assert upload.report is not None
            assert whole.report is not None
            assert torch.equal(upload.report, whole.report)
            assert upload.statistics == whole.statistics
            seen = [(shown.client, shown.view, shown.step) for shown in upload.observations]
            assert seen == [
                (client, View.ON_DEVICE, 0),
                (client, View.ON_DEVICE, 1),
                (client, View.CLIENT, None),
                (client, View.SERVER, None),
            ]
            assert torch.equal(upload.observations[-1].tensors, upload.update)
            for shown, same in zip(upload.observations, whole.observations, strict=True):
                assert torch.equal(shown.tensors, same.tensors)
                assert torch.equal(shown.start, same.start)


def test_reports_and_noise_of_clients_in_a_chunk_differ() -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    made = uploads(small(EVERY_PLACE), model, sites, "fused")
    assert len({float(upload.report[0]) for upload in made if upload.report is not None}) == CLIENTS
    assert len({float(upload.update[0]) for upload in made}) == CLIENTS


def test_clients_of_different_sizes_run_side_by_side() -> None:
    sites = make_sites((7,))
    uneven = Sites(sites.examples, sites.indices[:50], (12, 10, 8, 12, 4, 4))
    model = build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    method = quiet(small(FED_AVG, local=LocalTraining(epochs=2, rate=Constant(0.1))))
    assert {method.local_steps(records) for records in uneven.sizes} == {8, 6, 4, 2}
    assert_same(uploads(method, model, uneven, "plain"), uploads(method, model, uneven, "fused"))


@pytest.mark.parametrize("each_row", [False, True])
def test_with_noise_the_two_paths_agree_in_distribution(each_row: bool) -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    noisy = replace(FED_CDP, example=replace(FED_CDP.example, sigma=2.0, each_row=each_row))  # type: ignore[type-var]
    method = small(noisy, local=LocalTraining(steps=1, rate=Constant(1.0)))
    draws = {
        path: torch.cat([updates(uploads(method, model, sites, path, seed=seed)) for seed in range(40)])
        for path in ("plain", "fused")
    }
    expected = 2.0 * 4.0 * np.sqrt(3) / 3  # σ·C·sqrt(B)/B on the mean gradient, learning rate 1
    for drawn in draws.values():
        assert drawn.std() == pytest.approx(expected, rel=0.03)
    assert draws["plain"].mean() == pytest.approx(float(draws["fused"].mean()), abs=4 * expected / np.sqrt(7000))


ROWS_SEEN = Taps(frozenset({View.ON_DEVICE}), frozenset(range(100)))


@pytest.mark.parametrize("path", ["plain", "general", "layered", "fused"])
def test_rows_that_carry_their_own_noise_do_so_whether_or_not_somebody_looks(path: str) -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    method = small(ON_ROWS, local=LocalTraining(steps=3, rate=Constant(0.5)))
    unseen, seen = (uploads(method, model, sites, path, taps=taps) for taps in (NO_TAPS, ROWS_SEEN))
    assert torch.equal(updates(unseen), updates(seen))
    for upload, other in zip(unseen, seen, strict=True):
        assert upload.observations == ()
        assert upload.receipts == other.receipts
        (receipt,) = upload.receipts
        assert (receipt.did.row_std, receipt.confirmed) == (24.0, True)
        assert receipt.draws == 3 * 3 * updates(unseen).shape[1]  # steps × rows × coordinates


@pytest.mark.parametrize("path", ["plain", "general", "layered", "fused"])
@pytest.mark.parametrize("noise", ["row", "sum"])
@pytest.mark.parametrize("batch", [PartitionBatch(3), PoissonBatch(3)], ids=lambda sampler: sampler.kind)
def test_where_the_noise_is_drawn_on_the_sum_whoever_looks_sees_clean_rows(
    path: str, noise: str, batch: object
) -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    local = LocalTraining(steps=1, rate=Constant(0.5))
    noisy = replace(FED_CDP, example=replace(FED_CDP.example, noise=noise))  # type: ignore[type-var]
    method, clean = (small(each, local=local, batch=batch) for each in (noisy, quiet(noisy, bound=4.0)))
    unseen, seen, bare = (
        uploads(each, model, sites, path, taps=taps)
        for each, taps in ((method, NO_TAPS), (method, ROWS_SEEN), (clean, ROWS_SEEN))
    )
    assert_same(unseen, seen)
    assert (updates(seen) - updates(bare)).std() > 1  # noise there is, on the sum
    for upload, without in zip(seen, bare, strict=True):
        (shown,), (expected,) = upload.observations, without.observations
        assert upload.receipts[0].did.row_std == 0
        assert shown.tensors.abs().max() > 0
        torch.testing.assert_close(shown.tensors, expected.tensors, rtol=1e-3, atol=1e-6)


def test_where_rows_are_noised_chunks_hold_no_more_rows_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    once, on_rows = (
        Engine(Job(small(each), model, sites, sites.examples, Streams.from_seed(5))) for each in (FED_CDP, ON_ROWS)
    )
    assert on_rows.plan == once.plan
    floats = 3 * on_rows.gradients.layout.size  # of one client's batch
    for room, clients in ((2 * floats, 2), (floats // 2, 1)):
        monkeypatch.setattr(batched, "CHUNK_FLOATS", room)
        assert (once.plan.clients, on_rows.plan.clients) == (64, clients)


def test_views_show_the_very_tensors_of_the_training() -> None:
    sites, model = make_sites((7,)), build("mlp", (7,), CLASSES, {"hidden": [5]}, seed=1)
    method = small(ON_ROWS, local=LocalTraining(steps=1, rate=Constant(0.5)))
    engine = Engine(Job(method, model, sites, sites.examples, Streams.from_seed(5)))
    start = engine.gradients.layout.vector(model)
    for upload in engine.train(Broadcast(0, start), range(CLIENTS), Taps(frozenset(CLIENTS_WORK))):
        rows, finished, arrived = upload.observations
        assert (rows.view, finished.view, arrived.view) == (View.ON_DEVICE, View.CLIENT, View.SERVER)
        assert rows.tensors.shape == (3, engine.gradients.layout.size)
        torch.testing.assert_close(-0.5 * rows.tensors.sum(0) / 3, upload.update, rtol=1e-4, atol=1e-4)
        assert torch.equal(finished.tensors, upload.update)
        assert torch.equal(arrived.tensors, upload.update)
        assert torch.equal(arrived.start, start)
        row_noise = rows.tensors.std()
        assert row_noise == pytest.approx(24.0, rel=0.2)  # σ·C on every single row
