"""The points of a sweep as tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from colonnade.errors import ColonnadeError, ConfigError, again, name_of
from colonnade.runtime.cluster import Cluster, brief
from colonnade.runtime.cores import keep_to
from colonnade.study.sweep.sweep_point import Point, SweepPlan, result_at

Kept = dict[str, Any]


def over_cluster(plan: SweepPlan, todo: list[Point], cluster: Cluster) -> Iterator[tuple[Point, Callable[[], Kept]]]:
    """Every point with a function that gives its result, in the order in which the points finish.

    Nodes need no disk in common: results travel back, and the caller keeps them.
    """
    if plan.options.get("runtime") == "ray" or isinstance(plan.options.get("runtime"), Cluster):
        raise ConfigError(
            "a sweep over a cluster has whole runs in its processes; leave out runtime='ray' or cluster=."
        )
    ray = cluster.join()
    cluster.check_room(ray, len(cluster.nodes or [1]), cluster.cpus)
    sent = ray.put(plan)  # once, not with every point
    points = {}
    for number, point in enumerate(todo):
        # With "num_cpus" Ray runs at most as many points at a time as there are cores.
        options = {**cluster.options(ray, number), "num_cpus": cluster.cpus}
        points[ray.remote(_at).options(**options).remote(sent, point)] = point
    waiting = list(points)
    try:
        while waiting:
            (done, *_), waiting = ray.wait(waiting, num_returns=1)
            yield points[done], lambda done=done: _result(ray, done)  # type: ignore[misc]
    finally:
        for unfinished in waiting:
            ray.cancel(unfinished, force=True)


def _at(plan: SweepPlan, point: Point) -> Kept:
    """In a process of the cluster: the result, or the error's class name and sentence, since errors may not pickle."""
    torch.set_num_threads(1)
    keep_to(1)
    try:
        return result_at(plan, point)
    except ColonnadeError as error:
        return {"kind": name_of(error), "text": str(error)}


def _result(ray: Any, done: Any) -> Kept:
    try:
        kept: Kept = ray.get(done)
    except ray.exceptions.RayError as error:
        raise RuntimeError(brief(error)) from None
    if "kind" in kept:
        raise again(kept["kind"], kept["text"])
    return kept
