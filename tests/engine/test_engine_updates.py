"""What happens to finished updates before they leave their clients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from scaled_noise import scale_noise

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Unit
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.updates import Sent, sanitised, update_norms
from fedveil.mechanisms.adaptive import Histogram, Quantile
from fedveil.mechanisms.clip import Bound, Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.noise import STD_CELLS, NoiseSource
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.method import Method
from fedveil.parts.compression import Prune
from fedveil.parts.stopping import Stop

LAYOUT = Layout(("a.weight", "a.bias", "b"), ((4_000,), (500,), (500,)), (0, 0, 1))
CLIENTS = (3, 7, 8, 20)


def method(bound: Bound | float = 2.0, sigma: float = 1.5, by: str = "flat", **changes: Any) -> Method:
    clip = Clip(bound, by=by)  # type: ignore[arg-type]
    return Method(upload=Gaussian(clip=clip, sigma=sigma, unit=Unit.CLIENT), stop=Stop(3), **changes)


def send(
    method: Method,
    updates: torch.Tensor,
    round: int = 0,
    bound: float | None = None,
    clients: tuple[int, ...] = CLIENTS,
) -> Sent:
    streams = Streams.from_seed(5)
    return sanitised(method, round, bound, clients, updates, LAYOUT, streams, NoiseSource(streams), NoiseMemory())


def random_updates(scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(len(CLIENTS), LAYOUT.size, generator=torch.Generator().manual_seed(1))


def test_without_a_mechanism_updates_leave_as_they_are() -> None:
    updates = random_updates()
    sent = send(Method(), updates)
    assert torch.equal(sent.updates, updates)
    assert (sent.reports, sent.receipts) == (None, ())


def test_flat_clipping_bounds_the_whole_update_and_keeps_its_direction() -> None:
    updates = random_updates() * torch.tensor([[1e-4], [1.0], [50.0], [1e-3]])
    sent = send(method(sigma=0.0), updates).updates
    for before, after in zip(updates, sent, strict=True):
        expected = before * min(1.0, 2.0 / float(before.norm()))
        torch.testing.assert_close(after, expected, rtol=2e-3, atol=0.0)
        assert after.norm() <= 2.0 * (1 + 1e-6)


def test_layer_clipping_bounds_every_layer_with_its_bias() -> None:
    updates = random_updates()
    sent = send(method(sigma=0.0, by="layer"), updates).updates
    for part in LAYOUT.group_slices:
        for before, after in zip(updates[:, part], sent[:, part], strict=True):
            torch.testing.assert_close(after, before * 2.0 / before.norm(), rtol=2e-3, atol=0.0)
    assert [(part.start, part.stop) for part in LAYOUT.group_slices] == [(0, 4_500), (4_500, 5_000)]


@pytest.mark.parametrize("by", ["flat", "layer"])
def test_the_noise_on_every_update_is_sigma_times_the_bound(by: str) -> None:
    sent = send(method(by=by), torch.zeros(len(CLIENTS), LAYOUT.size)).updates
    for update in sent:
        assert update.std() == pytest.approx(3.0, rel=5 / math.sqrt(2 * LAYOUT.size))
    correlations = torch.corrcoef(sent)[~torch.eye(len(CLIENTS), dtype=torch.bool)]
    assert correlations.abs().max() < 5 / math.sqrt(LAYOUT.size)


def test_the_noise_follows_the_schedules_of_bound_and_sigma() -> None:
    falling = method(Linear(4.0, 1.0))
    assert falling.upload is not None
    falling = replace(falling, upload=replace(falling.upload, course=Linear(1.0, 3.0)))
    for round, expected in enumerate((4.0 * 1.5, 2.5 * 3.0, 1.0 * 4.5)):
        sent = send(falling, torch.zeros(len(CLIENTS), LAYOUT.size), round)
        assert sent.updates.std() == pytest.approx(expected, rel=0.03)
        assert sent.receipts[0].did.sum_std == pytest.approx(expected)


def test_a_clients_noise_depends_on_itself_and_the_round_only() -> None:
    zeros = torch.zeros(len(CLIENTS), LAYOUT.size)
    together = send(method(), zeros).updates
    assert torch.equal(together[2], send(method(), zeros[:1], clients=(CLIENTS[2],)).updates[0])
    assert not torch.equal(together, send(method(), zeros, round=1).updates)


@pytest.mark.parametrize("by", ["flat", "layer"])
def test_an_update_that_is_not_finite_becomes_zero_plus_its_noise(by: str) -> None:
    updates = random_updates()
    updates[0, 3], updates[1, 4_700], updates[2] = math.nan, math.inf, math.nan
    spoilt = send(method(by=by), updates)
    silent = send(method(by=by), torch.zeros_like(updates))
    assert torch.equal(spoilt.updates[:3], silent.updates[:3])
    assert not torch.equal(spoilt.updates[3], silent.updates[3])
    assert all(receipt.confirmed for receipt in spoilt.receipts)


def test_an_update_whose_norm_overflows_cannot_pass() -> None:
    sent = send(method(sigma=0.0), torch.full((len(CLIENTS), LAYOUT.size), 3e38))
    assert sent.updates.norm(dim=-1).max() <= 2.0 * (1 + 1e-6)


def test_receipts_say_what_was_done_to_whom() -> None:
    made = method()
    receipts = send(made, random_updates(), round=2).receipts
    assert [(receipt.round, receipt.client) for receipt in receipts] == [(2, client) for client in CLIENTS]
    for receipt in receipts:
        assert (receipt.did,) == made.declare(2, 10, LAYOUT.group_count, 100)
        assert (receipt.did.sum_std, receipt.did.sensitivity, receipt.did.place) == (3.0, 2.0, "upload")
        assert receipt.did.adds_up
        assert receipt.confirmed
        assert receipt.draws == LAYOUT.size


def test_receipts_of_layer_clipping_count_the_layers_and_of_no_noise_no_draws() -> None:
    (first, *_) = send(method(by="layer"), random_updates()).receipts
    assert first.did.sensitivity == pytest.approx(2.0 * math.sqrt(2))
    (silent, *_) = send(method(sigma=0.0), random_updates()).receipts
    assert (silent.draws, silent.did.sum_std, silent.confirmed) == (0, 0.0, True)


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.8, 1.25])
def test_noise_of_another_size_is_not_confirmed(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    scale_noise(monkeypatch, factor)
    assert not any(receipt.confirmed for receipt in send(method(), random_updates()).receipts)


def test_each_client_reports_its_norm_through_noise_of_its_own() -> None:
    clients = tuple(range(4_000))
    streams, small = Streams.from_seed(5), Layout(("a",), ((2,),), (0,))
    updates = torch.tensor([[0.3, 0.0], [30.0, 0.0]]).repeat(2_000, 1)
    quantile = method(Quantile(start=1.0, sigma=5.0), sigma=1.0)
    sent = sanitised(quantile, 0, 1.0, clients, updates, small, streams, NoiseSource(streams), NoiseMemory())
    assert sent.reports is not None
    below, above = sent.reports[0::2, 0], sent.reports[1::2, 0]
    for bits, expected in ((below, 0.5), (above, -0.5)):  # the norm before the clip
        assert bits.mean() == pytest.approx(expected, abs=5 * 5.0 / math.sqrt(2_000))
        assert bits.std() == pytest.approx(5.0, rel=0.08)
    assert sent.receipts[0].did.report == 10.0


def test_the_bound_that_the_server_broadcasts_is_the_one_that_clips() -> None:
    rule = method(Quantile(start=1.0, sigma=5.0), sigma=0.0)
    sent = send(rule, random_updates(100.0), bound=0.25).updates
    assert sent.norm(dim=-1).tolist() == pytest.approx([0.25] * len(CLIENTS), rel=2e-3)


def test_a_histogram_is_reported_only_in_its_rounds() -> None:
    rule = method(Histogram(start=1.0, every=2), sigma=1.0)
    reports = [send(rule, random_updates(), round, bound=1.0).reports for round in range(3)]
    assert reports[1] is None
    for there in (reports[0], reports[2]):
        assert there is not None
        assert there.shape == (len(CLIENTS), 15)


def test_compression_comes_after_the_noise_and_the_receipts_see_all_of_it() -> None:
    pruned, whole = send(method(compress=Prune(0.5)), random_updates()), send(method(), random_updates())
    assert (pruned.updates != 0).sum(dim=-1).tolist() == [LAYOUT.size // 2] * len(CLIENTS)
    kept = pruned.updates != 0
    assert torch.equal(pruned.updates[kept], whole.updates[kept])
    assert all(receipt.confirmed and receipt.draws == LAYOUT.size for receipt in pruned.receipts)
    assert not pruned.receipts[0].did.adds_up


def test_norms_are_taken_layer_by_layer() -> None:
    update = torch.zeros(1, LAYOUT.size)
    update[0, 0], update[0, 4_200], update[0, 4_999] = 3.0, 4.0, 2.0
    assert update_norms(update, LAYOUT).tolist() == [[5.0, 2.0]]


def test_the_addresses_of_clients_are_their_own() -> None:
    streams = Streams.from_seed(5)
    sent = send(method(Constant(1.0), sigma=1.0), torch.zeros(len(CLIENTS), LAYOUT.size)).updates
    for client, update in zip(CLIENTS, sent, strict=True):
        drawn = NoiseSource(streams).integers(Purpose.UPLOAD_NOISE, [Address(0, client)], LAYOUT.size)
        torch.testing.assert_close(update, drawn[0].float() / STD_CELLS)
