"""The picture is a picture, and the summary tells the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from fedveil.core.errors import FedveilError
from fedveil.data.partition_picture import draw_partition, summarise_partition
from fedveil.data.partitions import Dirichlet, FullCopy, Random, Shards, make_partition

LABELS = torch.arange(1000) % 10


@pytest.mark.parametrize("clients", [1, 10, 41, 1500])
def test_a_picture_is_drawn(clients: int, tmp_path: Path) -> None:
    partition = make_partition(LABELS, LABELS, Dirichlet(0.5), clients, 20, 0, 0)
    path = tmp_path / "new folder" / "partition.png"
    draw_partition(partition, LABELS, 10, path)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width > 1000


def test_each_of_many_labels_has_a_colour_of_its_own(tmp_path: Path) -> None:
    labels = torch.arange(620) % 62
    draw_partition(make_partition(labels, labels, Random(), 5, 124, 0, 0), labels, 62, tmp_path / "bars.png")
    with Image.open(tmp_path / "bars.png") as picture:
        colours = picture.convert("RGB").getcolors(1 << 24)
    assert colours is not None
    assert sum(pixels > 100 and max(colour) - min(colour) > 20 for pixels, colour in colours) >= 62


def test_a_map_of_many_labels_can_be_drawn(tmp_path: Path) -> None:
    labels = torch.arange(620) % 62
    draw_partition(make_partition(labels, labels, Random(), 50, 12, 0, 0), labels, 62, tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        assert picture.width > 1000


def test_a_picture_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    partition = make_partition(LABELS, LABELS, Random(), 2, 20, 0, 0)
    with pytest.raises(FedveilError, match=r"file/x\.png: the picture can't be written"):
        draw_partition(partition, LABELS, 10, tmp_path / "file" / "x.png")


def test_the_summary_of_a_disjoint_partition() -> None:
    numbers = summarise_partition(make_partition(LABELS, LABELS, Shards(2), 5, 100, 7, 3), LABELS, 10)
    assert (numbers.clients, numbers.records, numbers.tests) == (5, (100, 100.0, 100), (7, 7.0, 7))
    assert 1 <= numbers.labels[0] <= numbers.labels[2] <= 4
    assert (numbers.max_copies, numbers.unused, numbers.seed) == (1, 500, 3)
    assert "no record is held by two clients" in "\n".join(numbers.lines())


def test_the_summary_of_copies() -> None:
    lines = summarise_partition(make_partition(LABELS, LABELS, FullCopy(), 3, 1000, 0, 0), LABELS, 10).lines()
    assert "copies             a record is held by 3 clients on average, 3 at most" in lines
