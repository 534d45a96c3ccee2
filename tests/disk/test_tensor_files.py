"""Files of tensors: one that is not as long as its header says is refused before it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from colonnade.disk.tensor_files import read_tensors

WHOLE = save({"w": torch.arange(6.0), "b": torch.zeros(2)}, metadata={"about": "a test"})


def with_header(entries: object, data: bytes = b"") -> bytes:
    header = json.dumps(entries).encode()
    return len(header).to_bytes(8, "little") + header + data


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(WHOLE)
    assert torch.equal(load(read_tensors(tmp_path / "a"))["w"], torch.arange(6.0))
    (tmp_path / "a").write_bytes(save({}))
    assert load(read_tensors(tmp_path / "a")) == {}


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_a_file_that_was_cut_off_anywhere_is_refused(cut: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(WHOLE[:cut])
    with pytest.raises(ValueError, match=r"bytes and|none of a safetensors file"):
        read_tensors(tmp_path / "a")


@pytest.mark.parametrize(
    "raw",
    [
        WHOLE + b"\0",
        b"\xff" * 8 + WHOLE[8:],
        (1 << 40).to_bytes(8, "little"),
        with_header([]),
        with_header({"w": 1}),
        with_header({"w": {"data_offsets": [0]}}),
        with_header({"w": {"data_offsets": [0, -4]}}),
        with_header({"w": {"data_offsets": [0, "4"]}}),
        with_header({"w": {"data_offsets": [0, 1 << 60]}}),
        (20_000).to_bytes(8, "little") + b"[" * 20_000,
    ],
    ids=range(10),
)
def test_a_damaged_file_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(raw)
    with pytest.raises(ValueError, match=r"bytes and|none of a safetensors file"):
        read_tensors(tmp_path / "a")


def test_a_large_claim_costs_no_memory(tmp_path: Path) -> None:
    """A file with a hole of a terabyte, whose header has the size right, would be read; one without would not."""
    entries = {"w": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}
    (tmp_path / "a").write_bytes(with_header(entries))
    with pytest.raises(ValueError, match=r"its header speaks of 1,099,511,627,"):
        read_tensors(tmp_path / "a")
