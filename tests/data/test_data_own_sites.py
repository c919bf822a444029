"""Named, unequal sites from whatever form their records have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import TensorDataset

from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Regression
from fedveil.data.examples import Examples
from fedveil.data.own_sites import from_sites
from fedveil.data.picture_format import PictureFormat

SCHEMA = """
target = "sick"
[columns.age]
type = "number"
low = 0
high = 100
[columns.sick]
type = "flag"
"""


def pair(count: int, width: int = 3, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    inputs = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return inputs, np.arange(count) % 2


class Pairs(TorchDataset[tuple[Any, Any]]):
    """A data set of someone's own, as PyTorch has them."""

    def __init__(self, inputs: Any, labels: Any) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.inputs[index], self.labels[index]


def test_sites_keep_their_names_their_sizes_and_their_order() -> None:
    dataset = from_sites({"south": pair(40), "north": pair(8), "far away": pair(20)}, validation=0.25)
    assert [(site.name, len(site.train), len(site.validation)) for site in dataset.sites] == [
        ("south", 30, 10), ("north", 6, 2), ("far away", 15, 5),
    ]  # fmt: skip
    assert (len(dataset.train), len(dataset.validation), dataset.classes) == (51, 17, 2)


def test_each_record_goes_to_its_own_site_once() -> None:
    sites = {name: (np.full((9, 1), number, dtype=np.float64), np.arange(9) % 3) for number, name in enumerate("abc")}
    dataset = from_sites(sites)
    for number, site in enumerate(dataset.sites):
        assert dataset.train.inputs[list(site.train)].unique().tolist() == [number]
        assert dataset.validation.inputs[list(site.validation)].unique().tolist() == [number]
        assert len(site.train) + len(site.validation) == 9


def test_a_site_is_split_alike_whatever_other_sites_there_are() -> None:
    """So that it can be read where the others' records are not."""
    alone = from_sites({"north": pair(30)}, validation=0.3)
    among = from_sites({"south": pair(12, seed=1), "north": pair(30)}, validation=0.3)
    (mine,) = alone.sites
    theirs = among.sites[1]
    assert torch.equal(alone.train.inputs, among.train.inputs[list(theirs.train)])
    assert torch.equal(alone.validation.inputs, among.validation.inputs[list(theirs.validation)])
    assert len(mine.validation) == 9


def test_every_class_is_held_out_in_its_proportion() -> None:
    inputs, _ = pair(100)
    dataset = from_sites({"north": (inputs, np.repeat([0, 1], [80, 20]))}, validation=0.25)
    assert dataset.validation.labels.bincount().tolist() == [20, 5]


@pytest.mark.parametrize(
    "form",
    [
        lambda inputs, labels: (inputs, labels),
        lambda inputs, labels: [inputs.tolist(), labels.tolist()],
        lambda inputs, labels: (torch.from_numpy(inputs), torch.from_numpy(labels)),
        lambda inputs, labels: Examples(torch.from_numpy(inputs), torch.from_numpy(labels)),
        lambda inputs, labels: TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels)),
        lambda inputs, labels: Pairs(inputs, [int(label) for label in labels]),
        lambda inputs, labels: (inputs.astype(np.float64), labels.astype(bool)),
        lambda inputs, labels: (inputs, labels.astype(np.uint8)),
    ],
)
def test_every_form_of_the_same_records_gives_the_same_data_set(form: Any) -> None:
    dataset = from_sites({"north": form(*pair(20)), "south": form(*pair(10, seed=1))})
    expected = from_sites({"north": pair(20), "south": pair(10, seed=1)})
    assert dataset.fingerprint == expected.fingerprint
    assert dataset.sites == expected.sites


def test_labels_of_any_kind_are_classes_with_names() -> None:
    inputs, labels = pair(8)
    named = from_sites({"north": (inputs, ["ill" if label else "well" for label in labels])})
    assert named.class_names == ("ill", "well")
    listed = from_sites(
        {"north": (inputs, [(0, "a") if label else None for label in labels])}, classes=[None, (0, "a")]
    )
    assert listed.class_names == ("None", "(0, 'a')")
    ordered = from_sites({"north": (inputs, labels + 4)}, classes=[5, 4])
    assert ordered.class_names == ("5", "4")
    assert ordered.train.labels.sum() == (named.train.labels == 1).sum()
    task = Classification(("well", "ill"))
    by_name = from_sites({"north": (inputs, np.array(["well", "ill"])[labels])}, task=task)
    assert torch.equal(by_name.train.labels, from_sites({"north": (inputs, labels)}, task=task).train.labels)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([1, 2, 1, 2], r"site 'south': labels begin at 1, not at 0; subtract 1, or name the classes: classes=\[1, 2\]"),
        ([-1, 1, -1, 1], r"labels begin at -1, not at 0; add 1, or name the classes: classes=\[-1, 1\]"),
        ([0, 1, 3, 0], r"labels go up to 3, and no record has label 2; name the classes: classes=range\(4\)"),
        ([0, 1, "yes", 0], "labels of mixed types, 1 .int. and 'yes' .str.; name all classes"),
        ([0.0, 1.0, 0.5, 0.0], r"label 0.0 is a number with a point; give task=Regression\(low, high\)"),
        ([0, None, 1, 0], "example 1 has no label"),
        ([0, [1], 1, 0], "example 1 has a list as its label"),
        ([0, 1, 0], "4 inputs but 3 labels"),
        ([0, 0, 0, 0], "there is one class only, 0, so there is nothing to learn"),
    ],
)
def test_labels_that_are_not_as_they_should_be_are_said_and_not_guessed(labels: list[Any], problem: str) -> None:
    with pytest.raises(FedveilError, match=problem) as caught:
        from_sites({"south": (np.zeros((4, 2)), labels)})
    assert "\n" not in str(caught.value)


def test_a_label_that_is_no_class_is_named_with_its_place() -> None:
    with pytest.raises(FedveilError, match=r"site 'south': example 2 has label 'maybe', which is none of the classes"):
        from_sites({"south": (np.zeros((3, 2)), np.array(["no", "yes", "maybe"]))}, classes=("no", "yes"))


@pytest.mark.parametrize(
    ("sites", "problem"),
    [
        ({"north": pair(0), "south": pair(4)}, "site 'north': is empty"),
        (
            {"north": pair(4, 2), "south": pair(4, 3)},
            r"site 'south': records are float32 \[3\], and those of site 'north'",
        ),
        (
            {"north": (np.array([[1.0], [np.inf]]), [0, 1])},
            "site 'north': example 1 holds a value that is not a finite",
        ),
        ({"north": (np.array([[1.0], [1e39]]), [0, 1])}, "site 'north': example 1 holds a value that is not a finite"),
        ({"north": (np.array([["1"], ["x"]]), [0, 1])}, "site 'north': inputs must be numbers, not texts"),
        ({"north": (np.array([["1"], [None]]), [0, 1])}, "inputs must be numbers, not objects of mixed types"),
        ({"north": ([[1, 2], [1]], [0, 1])}, "site 'north': not an array of equal rows"),
        ({"north": ([1.0, 2.0], [0, 1])}, r"inputs must be \[examples, …\]"),
        ({"north": 5}, "site 'north': records must be Examples, a pair"),
        ({"north": Pairs([torch.zeros(2), torch.zeros(3)], [0, 1])}, "site 'north': example 1 is torch.float32"),
        ({"north": Pairs([], [])}, "site 'north': is empty"),
        ({"north": "nothing.csv"}, "site 'north': a table needs a schema"),
        ({5: pair(4)}, "a name must be a text, not 5"),
        ({" north": pair(4)}, "begins or ends with a space"),
        ({"nor/th": pair(4)}, "must be a plain name"),
        ({}, "sites: there are none"),
        ([pair(4)], "sites: must be names and records"),
        ("heart", "sites: must be names and records"),
    ],
)
def test_sites_that_can_not_be_trained_on_are_refused_in_one_line(sites: Any, problem: str) -> None:
    with pytest.raises(FedveilError, match=problem) as caught:
        from_sites(sites)
    assert "\n" not in str(caught.value)


def test_a_site_of_one_class_is_taken_where_the_others_have_more() -> None:
    dataset = from_sites({"ill": (np.zeros((4, 2)), [1] * 4), "all": pair(8, 2)})
    assert dataset.train.labels[list(dataset.sites[0].train)].tolist() == [1] * 3


def test_one_class_only_is_refused_also_where_classes_are_named() -> None:
    with pytest.raises(FedveilError, match="all records to train on are of the class 'yes'"):
        from_sites({"north": (np.zeros((4, 2)), ["yes"] * 4)}, classes=("no", "yes"))


def test_what_sites_hold_out_of_their_own_records_is_private() -> None:
    own = from_sites({"north": pair(8)}, classes=(0, 1), features="public")
    assert [caveat.kind for caveat in own.caveats] == [CaveatKind.PRIVATE_EVALUATION]
    public = from_sites({"north": pair(8)}, classes=(0, 1), features="public", validation_records="public")
    assert public.caveats == ()
    by_site = from_sites({"north": pair(8)}, validation={"north": pair(4)})
    assert by_site.validation_records is Openness.PRIVATE
    common = from_sites({"north": pair(8)}, validation=pair(4))
    assert common.validation_records is Openness.UNDECLARED


def test_classes_that_were_counted_are_not_public() -> None:
    with pytest.raises(FedveilError, match="classes: must be named; counted from the labels, they would not be public"):
        from_sites({"north": pair(8)}, features="public")


def test_validation_records_may_be_given_apart() -> None:
    common = from_sites({"north": pair(8), "south": pair(4)}, validation=pair(6, seed=3))
    assert [(len(site.train), len(site.validation)) for site in common.sites] == [(8, 0), (4, 0)]
    assert len(common.validation) == 6
    apart = {"south": pair(2, seed=4), "north": pair(6, seed=3)}
    by_site = from_sites({"north": pair(8), "south": pair(4)}, validation=apart)
    assert [(site.name, len(site.train), len(site.validation)) for site in by_site.sites] == [
        ("north", 8, 6), ("south", 4, 2),
    ]  # fmt: skip
    assert torch.equal(by_site.validation.inputs[6:], torch.from_numpy(apart["south"][0]))


@pytest.mark.parametrize("validation", [0, 1, 0.0, 1.0, -0.5, True, None, float("nan")])
def test_a_share_that_is_none_is_refused(validation: Any) -> None:
    with pytest.raises(FedveilError, match="validation: must be a share above 0 and below 1, or records"):
        from_sites({"north": pair(8)}, validation=validation)


def test_validation_that_does_not_fit_is_refused() -> None:
    with pytest.raises(FedveilError, match="validation: must have the same sites as the records"):
        from_sites({"north": pair(8)}, validation={"north": pair(4), "south": pair(4)})
    with pytest.raises(FedveilError, match=r"validation: records are float32 \[2\]"):
        from_sites({"north": pair(8)}, validation=pair(4, 2))
    with pytest.raises(FedveilError, match="none is left to measure on"):
        from_sites({"north": (np.zeros((2, 1)), [0, 1])}, validation=0.01)


def test_numbers_to_predict_are_in_their_own_unit() -> None:
    task = Regression(0, 10, "years")
    dataset = from_sites({"north": (np.zeros((4, 1)), [0.0, 5.0, 10.0, 99.0])}, task=task, validation=pair_of_years())
    assert dataset.train.labels.tolist() == [-1, 0, 1, 1]
    scaled = Examples(torch.zeros(2, 1), torch.tensor([-1.0, 0.5]))
    assert from_sites({"north": scaled}, task=task, validation=scaled).train.labels.tolist() == [-1, 0.5]
    with pytest.raises(FedveilError, match="site 'north': labels must be numbers"):
        from_sites({"north": (np.zeros((2, 1)), ["young", "old"])}, task=task)
    with pytest.raises(FedveilError, match="site 'north': example 1 has no number as its label"):
        from_sites({"north": (np.zeros((2, 1)), [1.0, np.nan])}, task=task)


def pair_of_years() -> tuple[Any, Any]:
    return np.zeros((1, 1)), [5.0]


def test_whole_numbers_are_tokens() -> None:
    dataset = from_sites({"north": (np.arange(12, dtype=np.int32).reshape(4, 3), [0, 1, 0, 1])})
    assert dataset.tokens
    assert dataset.train.inputs.dtype == torch.int64
    with pytest.raises(FedveilError, match="site 'north': example 0 holds a negative token"):
        from_sites({"north": (np.array([[-1], [2]]), [0, 1])})


def table(path: Path, rows: int, first: int = 20) -> Path:
    lines = [f"{first + row},{'yes' if row % 2 else 'no'}" for row in range(rows)]
    path.write_text("\n".join(["age,sick", *lines]))
    return path


def test_tables_are_read_by_their_public_schema(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    sites = {"north": table(tmp_path / "north.csv", 8), "south": str(table(tmp_path / "south.csv", 4, 60))}
    dataset = from_sites(sites, schema=tmp_path / "schema.toml", validation=0.25)
    assert [(site.name, len(site.train)) for site in dataset.sites] == [("north", 6), ("south", 3)]
    assert (dataset.class_names, dataset.features) == (("no", "yes"), Openness.PUBLIC)
    assert dataset.schema is not None
    assert dataset.train.inputs.min() == pytest.approx(20 / 50 - 1)


def test_one_table_names_the_site_of_each_row(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('site = "clinic"' + SCHEMA)
    rows = [f"{20 + row},{row % 2},{'ab'[row % 3 == 0]}" for row in range(12)]
    (tmp_path / "all.csv").write_text("\n".join(["age,sick,clinic", *rows]))
    dataset = from_sites(tmp_path / "all.csv", schema=tmp_path / "schema.toml")
    assert [(site.name, len(site.train), len(site.validation)) for site in dataset.sites] == [("b", 3, 1), ("a", 6, 2)]


def test_what_a_table_lacks_is_named_with_its_site(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "north.csv").write_text("sick\nyes\n")
    with pytest.raises(FedveilError, match=r"site 'north': .*north.csv: lacks the column 'age'"):
        from_sites({"north": tmp_path / "north.csv"}, schema=tmp_path / "schema.toml")
    with pytest.raises(FedveilError, match="site 'north': with a schema records must be a table, not tuple"):
        from_sites({"north": pair(4)}, schema=tmp_path / "schema.toml")
    with pytest.raises(FedveilError, match="features: are public by the schema, not private"):
        from_sites({"north": table(tmp_path / "a.csv", 4)}, schema=tmp_path / "schema.toml", features="private")
    with pytest.raises(FedveilError, match="schema: says what is predicted; leave out task and classes"):
        from_sites({"north": table(tmp_path / "a.csv", 4)}, schema=tmp_path / "schema.toml", classes=(0, 1))


def pictures(folder: Path, size: tuple[int, int] = (4, 3)) -> Path:
    for number in range(6):
        path = folder / ("dog" if number % 2 else "cat") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (number, 100, 200)).save(path)
    return folder


def test_a_folder_of_pictures_by_class_is_a_site(tmp_path: Path) -> None:
    dataset = from_sites(
        {"north": pictures(tmp_path / "north"), "south": pictures(tmp_path / "south")}, validation=0.34
    )
    assert (dataset.input_shape, dataset.class_names) == ((3, 3, 4), ("cat", "dog"))
    assert dataset.train.inputs.dtype == torch.uint8
    assert sorted(dataset.train.inputs[dataset.train.labels == 1][:, 0, 0, 0].unique().tolist())[0] % 2 == 1


def test_pictures_are_brought_to_a_public_size(tmp_path: Path) -> None:
    sites = {"north": pictures(tmp_path / "north"), "south": pictures(tmp_path / "south", (9, 9))}
    dataset = from_sites(sites, pictures=PictureFormat(height=2, width=5, grey=True))
    assert dataset.input_shape == (1, 2, 5)
    with pytest.raises(FedveilError, match=r"site 'south': records are uint8 \[3, 9, 9\]"):
        from_sites(sites)


def test_pictures_that_are_none_are_named(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "north")
    (folder / "cat" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    with pytest.raises(FedveilError, match=r"site 'north': .*broken.png is not a picture that can be read"):
        from_sites({"north": folder})
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(FedveilError, match=r"site 'north': .*empty holds no pictures"):
        from_sites({"north": tmp_path / "empty"})
    with pytest.raises(FedveilError, match=r"site 'north': .*cat has no folder for each class"):
        from_sites({"north": tmp_path / "empty" / "cat"})
    Image.new("RGB", (7, 7)).save(folder / "cat" / "broken.png")
    with pytest.raises(FedveilError, match=r"broken.png is 7×7, and .*0.png is 3×4; say to which height and width"):
        from_sites({"north": folder})


def test_arrays_that_can_not_be_written_to_are_copied() -> None:
    inputs = np.zeros((4, 2), dtype=np.float32)
    inputs.setflags(write=False)  # as those of a DataFrame, or of a file that is mapped
    made = from_sites({"a": (inputs, [0, 1, 0, 1]), "b": (inputs, [1, 0, 1, 0])}, classes=[0, 1])
    assert len(made.train) + len(made.validation) == 8
