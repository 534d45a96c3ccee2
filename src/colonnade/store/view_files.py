"""A recorded view in a folder: ``view/view.json`` and one safetensors file per epoch, for its owner's eyes alone.

A file that did not change since it was written is not written again. What is read is checked against its hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from colonnade.disk.json_form import COUNT, FLAG, TEXT, Form, Kind, first_wrong
from colonnade.disk.small_files import read_json
from colonnade.disk.tensor_files import read_tensors
from colonnade.disk.whole_files import make_folder, write_bytes, write_text
from colonnade.errors import CheckpointError
from colonnade.wire.view import Seen, View

PLACE = "view"
FORMAT = "colonnade-view-1"
LARGEST_INDEX = 64 << 20
LARGEST_FILES = 1 << 30
"""Bytes of all epochs together; a view has 64 MB by default."""
_FILE = re.compile(r"epoch-\d{6,9}-[0-9a-f]{8}\.safetensors")
_KEPT: Form = {"file": TEXT, "sha256": TEXT, "bytes": COUNT}
_FROM_ONE = Kind("a whole number from 1", lambda value: COUNT.fits(value) and value > 0)
_INDEX: Form = {
    "format": TEXT,
    "run": TEXT,
    "side": TEXT,
    "round": COUNT,
    "sample": [COUNT],
    "counts": [{"line": [TEXT], "messages": COUNT, "payload": COUNT}],
    "left_out": [TEXT],
    "facts": {
        "per_epoch": _FROM_ONE,
        "stride": _FROM_ONE,
        "edge": _FROM_ONE,
        "halvings": COUNT,
        "sparse": FLAG,
        "stopped": (COUNT, None),
        "gaps": [[COUNT]],
    },
    "files": [_KEPT],
}
_MESSAGE: Form = {
    **dict.fromkeys(("purpose", "step", "sender", "table", "rows"), TEXT),
    "receivers": [TEXT],
    "round": COUNT,
    "summed": FLAG,
    "fields": {"*": TEXT},
    "others": {"*": TEXT},
}


class ViewIndex(NamedTuple):
    """What stands beside the values in a folder."""

    run: str
    """Which run the view is of: a text that only that run's folder has."""
    round: int
    """How many rounds were done when it was written."""
    facts: Mapping[str, Any]
    """What the witness needs to go on."""


def has_view(folder: Path) -> bool:
    """Whether a run or job folder has a recorded view."""
    return (folder / PLACE / "view.json").exists()


@final
class ViewFolder:
    """Writes a growing view; it remembers which epochs the folder has already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PLACE
        self._written: dict[int, tuple[list[Seen], dict[str, Any]]] = {}

    def write(self, view: View, epochs: Mapping[int, Sequence[Seen]], index: ViewIndex) -> None:
        """Write the epochs that changed, and then the index, which says what is valid."""
        make_folder(self.folder).chmod(0o700)
        self._written = {epoch: self._write_epoch(epoch, seen) for epoch, seen in sorted(epochs.items()) if seen}
        files = [kept for _, kept in self._written.values()]
        counts = [
            {"line": [*line], "messages": messages, "payload": payload}
            for line, (messages, payload) in view.counts.items()
        ]
        about = {**index._asdict(), "side": view.side, "sample": view.sample.tolist(), "counts": counts}
        body = {"format": FORMAT, **about, "left_out": view.left_out, "files": files}
        write_text(self.folder / "view.json", json.dumps({**body, "digest": _digest(body)}), private=True)
        for path in self.folder.glob("epoch-*.safetensors"):
            if path.name not in {kept["file"] for kept in files}:
                path.unlink()

    def _write_epoch(self, epoch: int, seen: Sequence[Seen]) -> tuple[list[Seen], dict[str, Any]]:
        before = self._written.get(epoch)
        if before is not None and len(before[0]) == len(seen) and all(map(_is, before[0], seen)):
            return before
        arrays, messages = _packed(seen)
        raw = save_arrays(arrays, metadata={"seen": json.dumps(messages)})
        digest = hashlib.sha256(raw).hexdigest()
        # Another name for other contents, so that the index of before stays right until the new one is written.
        name = f"epoch-{epoch:06d}-{digest[:8]}.safetensors"
        write_bytes(self.folder / name, raw, private=True)
        return [*seen], {"file": name, "sha256": digest, "bytes": len(raw)}


def _is(first: Seen, second: Seen) -> bool:
    return first is second


def read_view(folder: Path) -> tuple[View, ViewIndex]:
    """The view in a run or job folder, every file of it checked."""
    index = _read_index(folder)
    place = folder / PLACE
    if sum(kept["bytes"] for kept in index["files"]) > LARGEST_FILES:
        raise _damaged(place, f"its files have more than {LARGEST_FILES >> 30} GB")
    seen = [one for kept in index["files"] for one in _read_epoch(place, kept)]
    counts = {tuple(each["line"]): (each["messages"], each["payload"]) for each in index["counts"]}
    view = View(index["side"], np.array(index["sample"], dtype=np.int64), seen, counts, index["left_out"])
    return view, ViewIndex(index["run"], index["round"], index["facts"])


def _read_index(folder: Path) -> dict[str, Any]:
    place = folder / PLACE
    if not has_view(folder):
        raise CheckpointError(
            f"{folder} has no recorded view; record one with train(..., record=True), or in a federation with "
            "record = true in [audit]; a run in one process can also be replayed if its tables are given."
        )
    try:
        index = read_json(place / "view.json", LARGEST_INDEX)
    except (OSError, ValueError):
        raise _damaged(place, "view.json cannot be read") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise CheckpointError(f"{place} holds no view of this version ({FORMAT}); it is foreign.")
    if index.pop("digest", None) != _digest(index):
        raise _damaged(place, "view.json does not match its digest")
    wrong = first_wrong(index, _INDEX)
    if wrong is not None or any(len(each["line"]) != 4 for each in index["counts"]):
        raise _damaged(place, f"view.json does not describe a view: {wrong or 'a line is none of a ledger'}")
    if any(len(gap) != 2 for gap in index["facts"]["gaps"]):
        raise _damaged(place, "view.json does not describe a view: a gap is no pair of rounds")
    return index


def _read_epoch(place: Path, kept: Mapping[str, Any]) -> Iterator[Seen]:
    name = kept["file"]
    if not _FILE.fullmatch(name):
        raise _damaged(place, "view.json names a file that is none of a view")
    try:
        if (place / name).stat().st_size != kept["bytes"]:
            raise ValueError
        raw = read_tensors(place / name)
        if hashlib.sha256(raw).hexdigest() != kept["sha256"]:
            raise ValueError
        messages = json.loads(_metadata(raw)["seen"])
        arrays = load_arrays(raw)
        if first_wrong(messages, [_MESSAGE]) is not None:
            raise ValueError
        yield from [*_unpacked(arrays, messages)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        raise _damaged(place, f"{name} is missing or altered") from None


def _metadata(raw: bytes) -> Any:
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length])["__metadata__"]


def _packed(seen: Sequence[Seen]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """All arrays by name, each once, and the messages that refer to them; receivers of one message stand together."""
    arrays: dict[str, np.ndarray] = {}
    names: dict[int, str] = {}

    def name_of(array: np.ndarray) -> str:
        if id(array) not in names:
            names[id(array)] = str(len(names))
            arrays[names[id(array)]] = np.ascontiguousarray(array).reshape(array.shape)
        return names[id(array)]

    messages: list[dict[str, Any]] = []
    last: Seen | None = None
    for one in seen:
        if last is not None and _is_same_message(last, one):
            messages[-1]["receivers"].append(one.receiver)
            continue
        last, named = one, {key: {name: name_of(array) for name, array in part.items()} for key, part in _parts(one)}
        messages.append({**_facts_of(one), "rows": name_of(one.rows), "receivers": [one.receiver], **named})
    return arrays, messages


def _unpacked(arrays: Mapping[str, np.ndarray], messages: Sequence[Mapping[str, Any]]) -> Iterator[Seen]:
    for message in messages:
        fields, others = ({name: arrays[key] for name, key in message[part].items()} for part in ("fields", "others"))
        _check_rows(arrays[message["rows"]], fields)
        about = {name: message[name] for name in _FACTS}
        for receiver in message["receivers"]:
            yield Seen(**about, receiver=receiver, rows=arrays[message["rows"]], fields=fields, others=others)


def _check_rows(rows: np.ndarray, fields: Mapping[str, np.ndarray]) -> None:
    """Refuse numbers of rows that are none, and values of other rows: whoever reads a view looks rows up by them."""
    is_right = rows.ndim == 1 and rows.dtype == np.int64 and not (rows < 0).any()
    if not is_right or any(value.shape[:1] != rows.shape for value in fields.values()):
        raise ValueError


_FACTS = ("purpose", "step", "sender", "round", "summed", "table")


def _facts_of(one: Seen) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _FACTS}


def _parts(one: Seen) -> list[tuple[str, Mapping[str, np.ndarray]]]:
    return [("fields", one.fields), ("others", one.others)]


def _is_same_message(first: Seen, second: Seen) -> bool:
    """Whether two receivers were told this at once."""
    return first.fields is second.fields and first.others is second.others and _facts_of(first) == _facts_of(second)


def _damaged(place: Path, why: str) -> CheckpointError:
    return CheckpointError(f"the view {place} is damaged: {why}; bring it back from a copy, or record again.")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
