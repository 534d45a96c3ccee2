"""A recorded view in a run folder: what is written, who may read it, how it goes on, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
import views
from colonnade.errors import CheckpointError
from colonnade.store.view_files import ViewFolder, ViewIndex, read_view
from colonnade.wire.view import Seen, View


def tables(rows: int = 60, shift: int = 0) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 6)).astype(np.float32)
    return cn.split(x, (x[:, 0] > 0).astype(int), [[0, 1], [2, 3], [4, 5]], ids=np.arange(rows) + shift)


def train(folder: Path, **more: Any) -> cn.Run:
    settings = {"method": "splitnn", "epochs": 5, "batch": 16, "record": True, "folder": folder}
    return cn.train(tables(), **{**settings, **more})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    train(folder)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    for path in made.rglob("*"):
        if path.is_file():
            (tmp_path / path.relative_to(made)).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path.relative_to(made)).write_bytes(path.read_bytes())
    return tmp_path


def test_what_is_written_is_what_was_seen(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    views.check_same(read_view(tmp_path / "run")[0], run.view)
    opened = cn.resume(tmp_path / "run", train=False)
    views.check_same(opened.view, run.view)


def test_only_its_owner_may_read_it(made: Path) -> None:
    files = list((made / "view").iterdir())
    assert len(files) == 6 and {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (made / "view").stat().st_mode & 0o777 == 0o700


def test_an_epoch_that_did_not_change_is_written_once(tmp_path: Path) -> None:
    times: dict[str, set[int]] = {}

    def note(_: cn.Run) -> None:
        for path in (tmp_path / "run" / "view").glob("epoch-*"):
            times.setdefault(path.name, set()).add(path.stat().st_mtime_ns)

    train(tmp_path / "run", on_round=note)
    assert len(times) >= 4 and all(len(each) == 1 for each in times.values())


def test_a_prolonged_run_goes_on_recording(copy: Path, tmp_path: Path) -> None:
    longer = cn.resume(copy, tables(), epochs=7)
    views.check_same(longer.view, train(tmp_path / "whole", epochs=7).view)


def test_a_run_whose_view_is_lost_says_from_when_on_it_was_recorded(copy: Path) -> None:
    for path in (copy / "view").iterdir():
        path.unlink()
    view = cn.resume(copy, tables(), epochs=6).view
    assert view.left_out == ["nothing was recorded in rounds 0 to 19"]
    assert min(one.round for one in view.seen) == 20


def test_a_view_newer_than_the_checkpoint_is_cut(copy: Path, tmp_path: Path) -> None:
    """As a crash between writing the two leaves it."""
    (newest,) = (copy / "checkpoints").glob("00000020")
    for path in newest.iterdir():
        path.unlink()
    newest.rmdir()
    views.check_same(cn.resume(copy, tables()).view, train(tmp_path / "whole").view)


def altered(place: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The index with a change that its digest does not betray."""
    from colonnade.store.view_files import _digest

    index = json.loads(place.read_text())
    index.pop("digest")
    change(index)
    place.write_text(json.dumps({**index, "digest": _digest(index)}))


def test_a_view_of_another_run_is_refused(copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    cn.train(tables(shift=100), "splitnn", epochs=1, batch=16, record=True, folder=other)
    for path in (copy / "view").iterdir():
        path.unlink()
    for path in (other / "view").iterdir():
        (copy / "view" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CheckpointError, match="is the view of another run"):
        cn.resume(copy, tables(), epochs=6)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"format": "colonnade-view-9"}', b"[" * 5000])
def test_a_damaged_index_is_refused(copy: Path, raw: bytes) -> None:
    (copy / "view" / "view.json").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"the view .* is damaged: view.json|holds no view of this version"):
        read_view(copy)


def test_an_altered_index_is_refused(copy: Path) -> None:
    place = copy / "view" / "view.json"
    place.write_text(place.read_text().replace('"round": 20', '"round": 19'))
    with pytest.raises(CheckpointError, match="does not match its digest"):
        read_view(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.update(counts=[{"line": ["train"], "messages": 1, "payload": 1}]),
        lambda index: index.update(sample=["a"]),
        lambda index: index["files"][0].update(file="../../../etc/passwd"),
        lambda index: index["files"][0].update(bytes=1 << 40),
        lambda index: index.pop("facts"),
        lambda index: index["facts"].update(stride=0),
        lambda index: index["facts"].update(per_epoch=0),
        lambda index: index["facts"].update(gaps=[[1]]),
        lambda index: index.update(sample=[1 << 63]),
    ],
)
def test_an_index_that_describes_no_view_is_refused(copy: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    altered(copy / "view" / "view.json", change)
    with pytest.raises(CheckpointError, match=r"the view .* is damaged"):
        read_view(copy)


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw[:-1] + b"\1", lambda raw: b"", None])
def test_a_damaged_epoch_is_refused(copy: Path, change: Callable[[bytes], bytes] | None) -> None:
    place = sorted((copy / "view").glob("epoch-*"))[0]
    raw = place.read_bytes()
    place.unlink() if change is None else place.write_bytes(change(raw))
    with pytest.raises(CheckpointError, match=rf"the view .* is damaged: {place.name} is missing or altered"):
        read_view(copy)
    with pytest.raises(CheckpointError, match="is damaged"):
        cn.resume(copy, tables(), epochs=6)


@pytest.mark.parametrize("rows", [np.array([-1, 0]), np.array([0.0, 1.0]), np.array([[0, 1]]), np.array([0, 1, 2])])
def test_values_of_rows_that_there_cannot_be_are_refused(tmp_path: Path, rows: np.ndarray) -> None:
    """Somebody else's view, whose hashes are right: it would be read with the numbers of its rows."""
    for place, its in (("right", np.array([0, 1])), ("wrong", rows)):
        seen = Seen("train", "embed", "shop", "owner", 0, False, "train", its, {"h": np.ones((2, 3))}, {})
        facts = {"per_epoch": 4, "stride": 1, "edge": 2, "halvings": 0, "sparse": False, "stopped": None, "gaps": []}
        view = View("owner", np.array([0, 1]), [seen])
        ViewFolder(tmp_path / place).write(view, {0: [seen]}, ViewIndex("run", 1, facts))
    assert len(read_view(tmp_path / "right")[0].seen) == 1
    with pytest.raises(CheckpointError, match="is missing or altered"):
        read_view(tmp_path / "wrong")
