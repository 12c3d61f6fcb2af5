"""Tensors with metadata in a file."""

from pathlib import Path

import torch

from xlvin.storage import grouped, load_tensors, save_tensors


def test_tensors_and_metadata_return(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6).view(2, 3), "b": torch.tensor(1.5)}
    metadata = {"name": "ä", "list": [1, {"x": None}], "zeta": 1, "alpha": 2}
    save_tensors(tmp_path / "first", tensors, metadata)
    save_tensors(tmp_path / "second", tensors, dict(reversed(metadata.items())))
    found, told = load_tensors(tmp_path / "first")
    assert told == metadata
    assert all(torch.equal(tensors[name], found[name]) for name in tensors)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_groups_are_told_by_the_first_part_of_a_name() -> None:
    a, b, c = torch.zeros(3).unbind()
    assert grouped({"x.a": a, "x.b.c": b, "y": c}) == {"x": {"a": a, "b.c": b}, "y": {"": c}}
    assert grouped({})["x"] == {}
