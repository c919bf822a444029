"""The layered path against gradients taken one example at a time by automatic differentiation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from layered_networks import CASES, CLASSES, Case, Written
from torch import Tensor, nn

from fedveil.core.errors import FedveilError
from fedveil.engine import batched
from fedveil.engine.batched import choose
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.gradients import Batch, Factors, client_part
from fedveil.engine.layered import Layered, convolution_leaf, direct_kernels, trial
from fedveil.engine.layered.contributions import Formed, Looked, Outer, Streamed
from fedveil.engine.layered.trial import NotLayered, layered
from fedveil.engine.plain import Plain


def clip(norms: Tensor) -> Tensor:
    return (0.05 / norms.clamp_min(1e-12)).clamp(max=1.0)


def built(model: nn.Module, case: Case) -> Layered:
    made = layered(model, case.shape, tokens=case.words > 0)
    assert isinstance(made, Layered), made
    return made


def example(model: Layered, case: Case, start: Tensor, clients: int = 3, slots: int = 4) -> tuple[Tensor, Batch]:
    generator = torch.Generator().manual_seed(1)
    parameters = start + 0.2 * torch.randn(clients, len(start), generator=generator)
    shape = (clients, slots, *case.shape)
    if case.words:
        inputs = torch.randint(0, case.words, shape, generator=generator)
    else:
        inputs = torch.randn(shape, generator=generator)
    labels = torch.randint(0, CLASSES, (clients, slots), generator=generator)
    return parameters, Batch(inputs, labels, torch.ones(clients, slots))


def close(actual: Tensor, expected: Tensor) -> None:
    """Within 1e-5 of the largest entry: single entries may nearly cancel."""
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()) + 1e-9)


def prepared(name: str) -> tuple[Layered, Plain, Tensor, Batch]:
    case = CASES[name]
    torch.manual_seed(0)
    model = case.make()
    path = built(model, case)
    parameters, batch = example(path, case, path.layout.vector(model))
    return path, Plain(model), parameters, batch


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_clipped_sums_plain_sums_and_rows_are_those_of_one_example_at_a_time(name: str) -> None:
    path, plain, parameters, batch = prepared(name)
    batch.weights[0, -1] = 0.0
    expected, unclipped, rows = (
        plain.sums(parameters, batch, clip),
        plain.sums(parameters, batch, None),
        plain.rows(parameters, batch),
    )
    assert expected.norms is not None
    for _ in range(2):  # the second time, memory is used again
        made = path.sums(parameters, batch, clip)
        close(made.total, expected.total)
        close(made.losses, expected.losses)
        assert made.norms is not None
        close(made.norms, expected.norms)
        assert made.rejected.tolist() == [0, 0, 0]
        simple = path.sums(parameters, batch, None)
        close(simple.total, unclipped.total)
        close(simple.losses, unclipped.losses)
        assert simple.norms is None
        single = path.rows(parameters, batch)
        close(single.rows, rows.rows)
        close(single.norms, rows.norms)
        close(single.losses, rows.losses)
    alone = path.sums(parameters[:1], client_part(batch, slice(0, 1)), None)
    close(alone.total, unclipped.total[:1])


@pytest.mark.parametrize("large", [1 << 17, 0], ids=["by patches", "by the library"])
@pytest.mark.parametrize("name", ["convolution, padded", "convolution, strided", "convolution, dilated"])
def test_convolutions_without_kernels_in_c_agree_too(name: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_kernels, "VECTOR_WIDTHS", ())
    monkeypatch.setattr(convolution_leaf, "LARGE_PATCHES", large)
    test_clipped_sums_plain_sums_and_rows_are_those_of_one_example_at_a_time(name)


FINITE = [
    "linear over time",
    "wide linear over time",
    "convolution, padded",
    "convolution, large",
    "group norm",
    "layer norm",
    "GRU {'batch_first': True}",
    "transformer layer",
    "loose parameters",
]


@pytest.mark.parametrize("factors", [clip, None], ids=["clipped", "plain"])
@pytest.mark.parametrize("name", FINITE)
@torch.no_grad()
def test_an_example_that_is_not_finite_is_counted_and_changes_no_bit_of_the_others(
    name: str, factors: Factors | None
) -> None:
    path, _, parameters, batch = prepared(name)
    healthy = path.sums(parameters, batch, factors).total.clone()
    without = batch.weights.clone()
    without[1, 2] = 0.0
    left_out = path.sums(parameters, replace(batch, weights=without), factors).total.clone()
    spoiled = replace(batch, inputs=batch.inputs.clone())
    spoiled.inputs[1, 2] = float("nan")
    made = path.sums(parameters, spoiled, factors)
    assert made.rejected.tolist() == [0, 1, 0]
    assert torch.isfinite(made.losses).all()
    if factors is not None:
        assert torch.equal(made.total, torch.stack([healthy[0], left_out[1], healthy[2]]))
        assert made.norms is not None
        assert not made.norms[1, 2].any()
    close(made.total, torch.stack([healthy[0], left_out[1], healthy[2]]))
    rows = path.rows(parameters, spoiled)
    assert rows.rejected.tolist() == [0, 1, 0]
    assert not rows.rows[1, 2].any()
    assert torch.isfinite(rows.rows).all()
    assert torch.equal(path.sums(parameters, batch, factors).total, healthy)  # nothing of it lingers


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_no_example_or_client_moves_a_bit_of_another(name: str) -> None:
    path, _, parameters, batch = prepared(name)
    rows, total = path.rows(parameters, batch).rows, path.sums(parameters, batch, clip).total.clone()
    other = replace(batch, inputs=batch.inputs.clone())
    other.inputs[1, 2] = 1 - other.inputs[1, 2] if batch.inputs.is_floating_point() else 1
    moved = parameters.clone()
    moved[2] += 0.1
    changed = path.rows(moved, other).rows
    assert torch.equal(changed[0], rows[0])
    assert torch.equal(changed[1, [0, 1, 3]], rows[1, [0, 1, 3]])
    assert torch.equal(path.sums(moved, other, clip).total[0], total[0])


def test_lengths_are_never_less_than_those_of_the_rows_that_are_added() -> None:
    """Also where the gradients of single places nearly cancel, which is where Gram matrices lose their digits."""
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(2, 5, 4, 60, generator=generator)
    inputs = torch.cat([one, one * (1 + 1e-6 * torch.randn(one.shape, generator=generator))], dim=2)
    half = torch.randn(2, 5, 4, 70, generator=generator)
    deltas = torch.cat([half, -half], dim=2)
    places = torch.randint(0, 3, (2, 5, 8), generator=generator)
    for made in (
        Streamed(inputs, deltas),
        Outer(inputs[:, :, 0], deltas[:, :, 0] * 1e-20),
        Looked(places, deltas, 3),
        Formed((deltas.mT @ inputs).flatten(2)),
    ):
        exact = made.rows().double().norm(dim=-1)
        assert (made.lengths().double() >= exact * (1 - 1.3e-4)).all()
        sums = torch.zeros(2, made.rows().shape[-1])
        one_hot = torch.zeros(2, 5)
        one_hot[:, 3] = 1.0
        made.summed(one_hot, sums.view(2, 70, 60) if not isinstance(made, Looked) else sums.view(2, 3, 70))
        assert torch.equal(sums, made.rows()[:, 3])  # what is added is the very row whose length was bounded


@pytest.mark.parametrize("rate", [0.1, 0.5])
@torch.no_grad()
def test_a_clients_draws_depend_on_its_seed_and_not_on_its_company(rate: float) -> None:
    model = Written(
        lambda net, x: net.head(net.drop(net.layer(net.words(x))).mean(1)),
        words=nn.Embedding(9, 8),
        layer=nn.TransformerEncoderLayer(8, 2, 16, rate, batch_first=True),
        drop=nn.Dropout(rate),
        head=nn.Linear(8, CLASSES),
    )
    case = Case(lambda: model, (6,), 9)
    path = built(model, case)
    assert path.random
    parameters, batch = example(path, case, path.layout.vector(model))
    batch = replace(batch, seeds=(5, 6, 7))
    parameters[2], batch.inputs[2], batch.labels[2] = parameters[1], batch.inputs[1], batch.labels[1]
    rows = path.rows(parameters, batch).rows
    assert not torch.equal(rows[1], rows[2])
    swapped = path.rows(parameters, replace(batch, seeds=(1, 6, 6))).rows
    assert torch.equal(swapped[1], rows[1])
    assert torch.equal(swapped[2], rows[1])
    again = path.rows(parameters, batch).rows
    assert torch.equal(again, rows)


def test_dropout_leaves_out_its_share_of_examples_and_keeps_the_mean() -> None:
    model = Written(lambda net, x: net.head(net.drop(x)), drop=nn.Dropout(0.25), head=nn.Linear(400, CLASSES))
    path = built(model, Case(lambda: model, (400,)))
    batch = Batch(torch.ones(2, 50, 400), torch.zeros(2, 50, dtype=torch.int64), torch.ones(2, 50), (1, 2))
    rows = path.rows(path.layout.vector(model).expand(2, -1), batch).rows[..., :400]
    share = (rows == 0).float().mean()
    assert abs(float(share) - 0.25) < 0.02


@pytest.mark.parametrize("name", ["convolution, groups", "attention of another width"])
def test_a_part_that_is_not_known_is_taken_example_by_example_and_the_reason_is_kept(name: str) -> None:
    path, *_ = prepared(name)
    assert path.reasons
    assert all(": " in reason for reason in path.reasons.values())


def test_weights_used_outside_of_their_part_are_noticed() -> None:
    path, *_ = prepared("weights used outside of their part")
    assert path.reasons == {"one": "Linear: its weights are used outside of it"}


class Choosing(nn.Module):
    """Asks its values which way to go."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(5, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.dense(inputs)
        return 2 * outputs if outputs.sum() > 0 else outputs


def test_a_network_that_goes_by_its_values_is_refused_in_a_sentence() -> None:
    assert isinstance(layered(Choosing(), (5,)), NotLayered)
    with pytest.raises(FedveilError, match=r"^model: it can't be vectorised over clients and examples"):
        choose(Choosing(), torch.zeros(1, 5))


def test_a_leaf_that_computes_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with ordinary autograd would catch a wrong rule."""
    case, right = CASES["convolution, padded"], convolution_leaf.Convolving.inputs_gradient
    wrong = lambda self, delta, shape: 1.01 * right(self, delta, shape)  # noqa: E731
    monkeypatch.setattr(convolution_leaf.Convolving, "inputs_gradient", wrong)
    made = layered(case.make(), case.shape)
    assert isinstance(made, NotLayered)
    assert "differ from ordinary autograd's" in made.reason


def test_the_path_is_chosen_by_what_a_network_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["group norm"]
    model, records = case.make(), torch.zeros(1, *case.shape)
    assert isinstance(choose(model, records), Layered)
    assert isinstance(choose(CASES["linear over features"].make(), torch.zeros(1, 5)), Fused)
    monkeypatch.setattr(batched, "layered", lambda *given, **named: NotLayered("of this"))
    general = choose(model, records)
    assert isinstance(general, General)
    assert general.because == "of this"


def test_the_trial_looks_at_all_that_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["layer norm"]
    monkeypatch.setattr(Streamed, "summed", lambda self, factors, out: out.zero_())
    made = trial.layered(case.make(), case.shape)
    assert isinstance(made, NotLayered)
    assert "sums of" in made.reason
