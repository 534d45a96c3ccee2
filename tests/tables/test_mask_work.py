"""Masks that threads work out ahead: the same bytes however many there are, and an end at once when it is stopped."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import pytest

import colonnade as cn
from colonnade.errors import ConfigError, SealError
from colonnade.runtime.cores import cores
from colonnade.tables.align import alignment_party, curve, mask_work
from colonnade.tables.align.curve import CurveMask
from colonnade.tables.align.mask_work import MaskWork, Workers

IDS = [b"person %d" % k for k in range(50)]


def tables(rows: int = 40) -> list[cn.Table]:
    """Two thirds of the ids of each are common to both."""
    ids = {"bank": range(rows), "shop": range(rows // 3, rows + rows // 3)}
    return [cn.Table(ids=[f"id {k}" for k in own], name=name) for name, own in ids.items()]


def threads_that_mask() -> int:
    return sum(thread.name == "masks" for thread in threading.enumerate())


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it did not come about within a minute"
        time.sleep(0.01)


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_the_bytes_are_the_same_however_many_threads_mask(threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_work, "SLICE", 8)
    mask = CurveMask(b"salt", bytes(range(32)))
    expected = mask.own(IDS)
    with Workers(threads or 1) as workers:
        work = MaskWork(workers if threads else None)
        assert work.start(mask.own, IDS)() == expected
        assert work.start(lambda points: mask.again(points, "them"), expected, 32)() == mask.again(expected, "them")
        assert (work.seconds > 0) is bool(threads)


@pytest.mark.parametrize("minimum", [1, 5])
def test_an_alignment_is_the_same_however_many_threads_mask(minimum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_work, "SLICE", 4)
    monkeypatch.setattr(alignment_party, "CHUNK", 16)
    monkeypatch.setattr("colonnade.tables.align.alignment_owner.messages.CHUNK", 16)
    found = [cn.align(tables(), minimum=minimum, threads=threads) for threads in (1, 2, 7)]
    rows = [{name: own.tolist() for name, own in alignment.rows.items()} for alignment in found]
    assert rows[0] == rows[1] == rows[2] and len(rows[0]["bank"]) == 27
    assert all(set(alignment.seconds_by_party) == {"bank", "shop"} for alignment in found)
    assert all(sum(one.seconds_by_party.values()) == pytest.approx(one.seconds) for one in found)


def test_an_alignment_is_the_same_by_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = pytest.importorskip("colonnade.tables.align.ladder", reason="numba is missing")
    calls: list[int] = []

    def multiply(key: bytes, points: bytes) -> bytes:
        calls.append(len(points))
        return ladder.multiply(key, points)

    monkeypatch.setattr(curve, "MANY", 0)
    monkeypatch.setattr(curve, "quick", lambda: multiply)
    assert cn.align(tables(), minimum=5).rows["shop"].tolist() == cn.align(tables(), mode="plain").rows["shop"].tolist()
    assert sum(calls) == 32 * (2 * 40 + (2 + 3) * 1024), "the bank's list; the shop's, filled up, and its second one"


def test_a_party_masks_its_own_list_before_it_is_asked_for_it() -> None:
    begun: list[int] = []
    mask = CurveMask(b"salt")

    def own(ids: list[bytes]) -> bytes:
        begun.append(len(ids))
        return mask.own(ids)

    with Workers(1) as workers:
        MaskWork(workers).start(own, IDS)
        wait_until(lambda: begun == [50])


def test_what_a_thread_refuses_is_refused_where_it_is_wanted() -> None:
    mask = CurveMask(b"salt")
    with Workers(2) as workers:
        later = MaskWork(workers).start(lambda points: mask.again(points, "'shop'"), bytes(64), 32)
        with pytest.raises(SealError, match="the set of 'shop' holds a point of low order"):
            later()


def test_an_alignment_that_is_stopped_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_work, "SLICE", 1)

    def stop(done: int, in_all: int) -> None:
        raise KeyboardInterrupt

    before = threads_that_mask()
    with pytest.raises(KeyboardInterrupt):
        cn.align(tables(400), threads=2, on_progress=stop)
    wait_until(lambda: threads_that_mask() <= before)


def test_what_was_not_begun_is_dropped() -> None:
    gate, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait(60)

    with Workers(1) as workers:
        first = workers.submit(wait)
        begun.wait(60)
        second = workers.submit(pow, 2, 2)
    assert second.cancelled()
    gate.set()
    assert first.result(60) is None


def test_workers_end_with_those_who_need_them() -> None:
    before = threads_that_mask()
    work = MaskWork(Workers(2))
    work.start(CurveMask(b"salt").own, IDS)()
    assert threads_that_mask() > before
    del work
    gc.collect()
    wait_until(lambda: threads_that_mask() <= before)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_odd_numbers_of_threads_are_refused(threads: object) -> None:
    with pytest.raises(ConfigError, match=r"threads=.* is out of range; give a whole number from 1, or None for all"):
        cn.align(tables(), threads=threads)  # type: ignore[arg-type]


def test_threads_are_at_most_the_cores_and_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    most = cores()
    for text, expected in (("1", 1), ("1000000", most), ("0", most), ("many", most), ("", most)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert cores() == expected
