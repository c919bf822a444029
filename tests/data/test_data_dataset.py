"""The five data sets as the papers use them, and the checks on anyone's own tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.data import cache, faces, sources, splits
from fedveil.data.dataset import Dataset, Examples, from_tensors, load, official_split, to_float

Loader = Callable[[str], Dataset]

SHAPES = {
    "mnist": (50_000, 10_000, 10_000, 10, (1, 28, 28), torch.uint8),
    "cifar10": (40_000, 10_000, 10_000, 10, (3, 32, 32), torch.uint8),
    "lfw": (2_267, 756, None, 62, (3, 32, 32), torch.uint8),
    "adult": (36_631, 12_211, None, 2, (105,), torch.float32),
    "cancer": (426, 143, None, 2, (30,), torch.float32),
}


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_are_those_of_the_papers(name: str, data_set: Loader) -> None:
    data = data_set(name)
    test = None if data.test is None else len(data.test)
    found = (
        len(data.train),
        len(data.validation),
        test,
        data.classes,
        data.input_shape,
        data.train.inputs.dtype,
    )
    assert found == SHAPES[name]
    assert data.name == name
    assert len(data.class_names) == data.classes


def test_mnist_parts_follow_each_other(data_set: Loader) -> None:
    mnist = data_set("mnist")
    assert mnist.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    whole = official_split(mnist)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert whole.train.labels.bincount().tolist() == counts
    assert whole.validation.labels[:3].tolist() == [7, 2, 1]
    assert whole.test is None


def test_cifar_colours_are_right(data_set: Loader) -> None:
    whole = official_split(data_set("cifar10"))
    means = whole.train.inputs.float().mean(dim=(0, 2, 3)) / 255
    torch.testing.assert_close(means, torch.tensor([0.4914, 0.4822, 0.4465]), atol=1e-4, rtol=0)
    assert whole.train.labels.bincount().tolist() == [5000] * 10


def test_every_person_is_in_both_parts_of_lfw(data_set: Loader) -> None:
    lfw = data_set("lfw")
    held_out = lfw.validation.labels.bincount(minlength=62)
    everyone = held_out + lfw.train.labels.bincount(minlength=62)
    assert everyone.tolist() == list(faces.PICTURES_OF.values())
    assert held_out.min() >= 5
    assert (held_out - everyone * 756 / 3023).abs().max() < 1


def test_numbers_are_standardised_on_the_training_part(data_set: Loader) -> None:
    for name, columns in (("adult", slice(0, 6)), ("cancer", slice(0, 30))):
        inputs = data_set(name).train.inputs[:, columns].double()
        assert inputs.mean(dim=0).abs().max() < 1e-5
        assert (inputs.std(dim=0, correction=0) - 1).abs().max() < 1e-5
        assert data_set(name).validation.inputs[:, columns].double().mean(dim=0).abs().max() > 1e-4


def test_cancer_has_no_official_test_set(data_set: Loader) -> None:
    with pytest.raises(FedveilError, match="'cancer' has no official test set"):
        official_split(data_set("cancer"))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(FedveilError, match="unknown data set 'imagenet': choose one of adult, cancer"):
        load("imagenet")


def test_missing_files_say_where_and_what_to_do(home: Path) -> None:
    with pytest.raises(FedveilError, match="run: fedveil data fetch mnist") as caught:
        load("mnist")
    assert str(home) in str(caught.value)


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], lambda content: b"x" + content[1:]])
def test_damaged_files_are_named(home: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = home / "data" / "adult" / "adult.data"
    path.parent.mkdir(parents=True)
    path.write_bytes(spoil(b"39, State-gov, 77516\n" * 10))
    with pytest.raises(FedveilError, match=r"adult\.data: damaged or incomplete .* fedveil data fetch adult"):
        load("adult")


def test_a_damaged_copy_does_not_hide_a_good_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = b"the right content"
    source = sources.SourceFile((sources.Form("one/file", sources.sha256_of(good)),))
    monkeypatch.setenv("FEDVEIL_DATA", str(home / "mine"))
    for place, content in (("mine", b"damaged"), ("data", good)):
        (home / place / "one").mkdir(parents=True)
        (home / place / "one" / "file").write_bytes(content)
    assert sources.read_source("one", source) == sources.Found(home / "data" / "one" / "file", good)


def test_bytes_become_numbers_between_zero_and_one() -> None:
    assert to_float(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0, 0.2, 1])
    numbers = torch.tensor([-3.0, 7.5])
    assert to_float(numbers) is numbers


def examples(count: int = 4, labels: list[int] | None = None, fill: float = 0.0) -> Examples:
    return Examples(torch.full((count, 3), fill), torch.tensor(labels or [0, 1] * (count // 2)))


def test_own_tensors_make_a_data_set() -> None:
    data = from_tensors("mine", examples(), examples(2))
    assert (data.classes, data.input_shape, data.class_names) == (2, (3,), ("0", "1"))
    assert len(data.train) == 4


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (examples(fill=float("nan")), "train: example 0 holds a value that is not a finite number"),
        (examples(fill=float("inf")), "not a finite number"),
        (examples(4, [0, 1, 2, 0]), "label 2, expected 0 to 1"),
        (examples(4, [0, -1, 1, 0]), "label -1, expected 0 to 1"),
        (examples(4, [0, 1]), "4 inputs but 2 labels"),
        (Examples(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)), "is empty"),
        (Examples(torch.zeros(2, 3, dtype=torch.float64), torch.tensor([0, 1])), "uint8 or float32"),
        (Examples(torch.zeros(2), torch.tensor([0, 1])), r"must be \[examples, …\]"),
        (Examples(torch.zeros(2, 3), torch.tensor([0.0, 1.0])), "vector of int64"),
        (Examples(torch.zeros(2, 4), torch.tensor([0, 1])), "not of the same shape"),
    ],
)
def test_own_tensors_are_checked(train: Examples, message: str) -> None:
    with pytest.raises(FedveilError, match=message) as caught:
        from_tensors("mine", train, examples(), 2)
    assert "\n" not in str(caught.value)


def test_class_names_must_fit() -> None:
    with pytest.raises(FedveilError, match="3 class names for 2 classes"):
        from_tensors("mine", examples(), examples(), 2, class_names=("a", "b", "c"))
    with pytest.raises(FedveilError, match="at least 2 classes"):
        from_tensors("mine", examples(2, [0, 0]), examples(2, [0, 0]))


def test_splits_are_fixed_for_ever() -> None:
    assert splits.shuffled("adult", 6).tolist() == [3, 1, 0, 4, 5, 2]
    train, validation = splits.split("adult", 100, 25)
    assert sorted([*train, *validation]) == list(range(100))
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    train, validation = splits.stratified_split("any", labels, 25)
    assert np.bincount(labels[validation]).tolist() == [13, 7, 5]
    assert sorted([*train, *validation]) == list(range(100))


def test_a_damaged_cache_is_never_used(home: Path) -> None:
    calls: list[int] = []

    def decode() -> bytes:
        calls.append(1)
        return b"decoded"

    def read() -> Tensor:
        return torch.frombuffer(cache.cached("set", "key", 7, decode), dtype=torch.uint8)

    expected = list(b"decoded")
    assert read().tolist() == expected
    assert read().tolist() == expected
    assert len(calls) == 1
    (file,) = (home / "decoded").iterdir()
    for spoiled in (file.read_bytes()[:-1], file.read_bytes() + b"x", b"", file.read_bytes()[:-1] + b"X"):
        calls.clear()
        file.write_bytes(spoiled)
        assert read().tolist() == expected
        assert len(calls) == 1
    assert list((home / "decoded").iterdir()) == [file]


def test_a_cache_that_cannot_be_written_is_no_obstacle(home: Path) -> None:
    home.write_text("a file where the directory should be")
    assert cache.cached("set", "key", 2, lambda: b"ok") == b"ok"


def test_tensors_of_any_order_in_memory_are_taken_and_laid_out_plainly() -> None:
    pictures = torch.rand(4, 6, 5, 3).permute(0, 3, 1, 2)
    part = Examples(pictures, torch.tensor([0, 1, 0, 1]))
    found = from_tensors("mine", part, part)
    assert found.train.inputs.is_contiguous()
    assert torch.equal(found.validation.inputs, pictures)
    assert found.input_shape == (3, 6, 5)


def test_records_are_told_apart_by_their_fingerprint() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    one, same, other = (Examples(torch.full((4, 2), value), labels) for value in (1.0, 1.0, 2.0))
    assert from_tensors("a", one, one).fingerprint == from_tensors("b", same, one).fingerprint
    assert from_tensors("a", one, one).fingerprint != from_tensors("a", other, one).fingerprint
    assert from_tensors("a", one, one).fingerprint != from_tensors("a", one, other).fingerprint


@pytest.mark.parametrize("name", ["inputs", "labels"])
def test_arrays_that_are_no_tensors_are_refused_with_the_way_out(name: str) -> None:
    values = {"inputs": torch.rand(6, 2), "labels": torch.arange(6) % 2}
    examples = Examples(**values | {name: values[name].numpy()})
    with pytest.raises(FedveilError, match=f"{name} must be a torch tensor, not ndarray; torch.as_tensor makes one"):
        from_tensors("mine", examples, examples)
