"""The cores that this process may keep busy, and work that it shares among them.

Torch can share one operation among threads (``threads=``). That changes the last digits, because sums are taken in
another order, and threads that wait for each other on a busy machine spin. Groups of parties share nothing within a
step, so they are computed at once, each by one thread: the numbers are those of one core, whatever the machine has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

import torch

R = TypeVar("R")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
_share: list[int] = []  # what this process was told to keep to
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process, since a fork has none of its parent's threads


def cores() -> int:
    """How many cores this process may keep busy: those it is bound to, or fewer if somebody says so.

    Its container may, ``OMP_NUM_THREADS`` (Ray sets it for its processes, and users can), and :func:`keep_to`.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    told = [int(said)] if said.isdecimal() and int(said) else []
    return max(1, min([bound, *_quota(), *told, *_share]))


def keep_to(most: int) -> None:
    """Use at most so many cores in this process from now on, because others on this machine work beside it."""
    _share[:] = [max(1, most)]


def _quota() -> list[int]:
    """The whole cores that a container may use, if there is a limit."""
    try:
        quota, period = QUOTA.read_text().split()
        return [] if quota == "max" else [int(quota) // int(period)]
    except (OSError, ValueError, ZeroDivisionError):
        return []


def at_once(jobs: Sequence[Callable[[], R]], most: int) -> list[R]:
    """The results of jobs that share nothing, in their order, with at most so many under way."""
    if most < 2 or len(jobs) < 2:
        return [job() for job in jobs]
    pool = _pool(most)
    futures = [pool.submit(job) for job in jobs]
    wait(futures)  # also if one fails: nothing is still written when the caller goes on
    return [future.result() for future in futures]


def _pool(size: int) -> ThreadPoolExecutor:
    place = os.getpid(), size
    if place not in _pools:
        _pools[place] = ThreadPoolExecutor(size, "colonnade-group", initializer=torch.set_num_threads, initargs=(1,))
    return _pools[place]
