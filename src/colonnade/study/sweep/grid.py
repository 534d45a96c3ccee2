"""``sweep``: reads the points that are done from the folder, and trains the others over processes."""

from __future__ import annotations

import hashlib
import inspect
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import torch

from colonnade.core.method import Method
from colonnade.core.option_names import from_stored_names, new_names, stored_names
from colonnade.core.options import count_of, whole
from colonnade.core.table import Table, check_federation
from colonnade.data import load
from colonnade.disk.json_form import ANYTHING, NUMBER, TEXT, Form, Wrong, first_wrong
from colonnade.disk.small_files import read_json
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import ColonnadeError, ConfigError, FolderError, TrainingError, unknown
from colonnade.methods import make_method
from colonnade.run.train import train
from colonnade.runtime.cluster import Cluster
from colonnade.runtime.cores import cores, keep_to
from colonnade.study.sweep.cluster_sweep import over_cluster
from colonnade.study.sweep.search_loop import judge_in, searched
from colonnade.study.sweep.search_space import USUAL_SPACE, Between, Space, refuse_ranges, space_of
from colonnade.study.sweep.searches import make_search
from colonnade.study.sweep.sweep_point import Point, SweepPlan, grid, result_at
from colonnade.study.sweep.sweep_table import Row, Sweep

Kept = dict[str, Any]
OnPoint = Callable[[Row], None]
VALID = 0.2  # the share of rows that a search is judged on, unless it is told another
OF_ONE_RUN = ("folder", "on_round", "absent")
KEPT: Form = {
    "point": {"*": ANYTHING},
    "found?": {"*": NUMBER},
    "heads?": {"*": NUMBER},
    "error?": TEXT,
    "digest?": TEXT,
}
SPAWN = multiprocessing.get_context("spawn")  # a fork of a process in which torch has threads may hang


def sweep(
    data: str | Mapping[str, Any] | Sequence[Table],
    method: str | Method = "vimadmm",
    over: Mapping[str, Sequence[Any]] | None = None,
    *,
    folder: str | Path,
    processes: int = 2,
    cluster: Cluster | None = None,
    test: Sequence[Table] | None = None,
    on_point: OnPoint | None = None,
    budget: int | None = None,
    seconds: float | None = None,
    search: str = "random",
    **options: Any,
) -> Sweep:
    """Train once for every combination of the values in ``over``, or search them with a budget, and give one table.

    ``over`` maps options of the method (``rho``, ``local_steps``, ...), options of :func:`colonnade.train` (``seed``,
    ``batch``, ``epochs``, ...), ``bits`` (adds ``cn.Bits``; None adds nothing) and, if ``data`` is a name, ``parties``
    and ``rows`` to lists of values. ``data`` is a name for :func:`colonnade.load`, or ``{"load": name, ...}`` with its
    options, which every process loads itself, or tables, with ``test`` beside them. ``options`` go to ``train``.

    Each point is kept in ``folder`` when it is done, so the same call goes on after an interruption and trains nothing
    twice; other ``options`` there are refused. A point that fails leaves its sentence in the table; the others go on.
    ``cluster`` spreads the points over a :class:`colonnade.Cluster` instead, as many at a time as it has room for.
    With a ``budget`` of runs, and of ``seconds`` if you like, ``over`` is searched instead: "random" or "optuna" (an
    extra) draws the points, from lists and from ranges such as ``{"lr": "0.0001..0.01"}``; without ``over`` it is the
    usual space of Adam. Points are judged on validation rows alone, a fifth of the rows unless ``valid`` says
    otherwise, and ``print(table.advice)`` says how to train with the best.
    In a script, call it below ``if __name__ == "__main__":``, or with ``processes=1``, which trains in this process.

    >>> import tempfile, colonnade as cn
    >>> digits = {"load": "digits", "parties": 2, "rows": 100}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = cn.sweep(digits, "vimsgd", {"lr": [0.1, 0.3]}, epochs=1, batch=50, folder=folder, processes=1)
    >>> [row["lr"] for row in table.rows], "test_accuracy" in table.best()
    ([0.1, 0.3], True)
    """
    if budget is not None:
        over, options = USUAL_SPACE if over is None else over, {"valid": VALID} | options
    elif seconds is not None:
        raise ConfigError(f"seconds={seconds} came without a budget of runs; give budget=20, for instance.")
    plan = _plan(data, make_method(method), new_names(options, "sweep()"), test)
    values = new_names(over, "over=") if isinstance(over, Mapping) else {} if over is None else over
    if not 1 <= whole(processes, "processes") <= 64:
        raise ConfigError(f"processes={processes} is out of range; give 1 to 64.")
    if budget is None:
        refuse_ranges(values)
        points = _points(plan, values)
        trained = _trainer(plan, _claimed(make_folder(folder), plan), processes, cluster, on_point)
        return _table(tuple(points[0]), trained(points))
    space, most = _space(plan, values), count_of(budget, "budget")
    trained = _trainer(plan, _claimed(make_folder(folder), plan), processes, cluster, on_point)
    done = searched(make_search(search, space), most, seconds, processes, trained)
    return replace(_table(tuple(space), done), judge=judge_in(done), method=plan.method)


def _trainer(
    plan: SweepPlan, place: Path, processes: int, cluster: Cluster | None, on_point: OnPoint | None
) -> Callable[[list[Point]], list[Kept]]:
    """What gives the results of points in their order: from the folder, or trained now."""

    def trained(points: list[Point]) -> list[Kept]:
        kept = {_file(place, point): _read_point(_file(place, point), point) for point in points}
        todo = [point for point in points if kept[_file(place, point)] is None]
        for result in _work(plan, todo, place, processes, cluster):
            kept[_file(place, result["point"])] = result
            if on_point is not None:
                on_point(_row(result))
        return [result for result in kept.values() if result is not None]

    return trained


def _table(over: tuple[str, ...], done: list[Kept]) -> Sweep:
    return Sweep(over, [_row(result) for result in done], [result.get("heads", {}) for result in done])


def _space(plan: SweepPlan, values: Mapping[str, Any]) -> Space:
    """What a search chooses from, after the checks of a grid."""
    space = space_of(values) if isinstance(values, Mapping) else {}
    ends = {
        key: [values.least, values.most] if isinstance(values, Between) else values for key, values in space.items()
    }
    _points(plan, ends)
    return space


def _plan(data: Any, method: Method, options: dict[str, Any], test: Sequence[Table] | None) -> SweepPlan:
    for name in options:
        if name in OF_ONE_RUN:
            raise ConfigError(f"{name}= is for one run, not for a sweep of many; leave it out.")
        if name not in inspect.signature(train).parameters:
            raise unknown("option of train", name, inspect.signature(train).parameters)
    if isinstance(data, str | Mapping):
        if test is not None:
            raise ConfigError("test= came with the name of a data set, which brings its own test rows; leave it out.")
        how = {"load": data} if isinstance(data, str) else dict(data)
        if not isinstance(how.get("load"), str):
            raise ConfigError(
                f"data={data!r} names no data set; give {{'load': 'digits', 'parties': 4}}, for instance."
            )
        for name in how:
            if name not in ("load", *inspect.signature(load).parameters):
                raise unknown("option of load", name, inspect.signature(load).parameters)
        return SweepPlan(how, method, options)
    check_federation(data, several=True)
    own, tested = ([*map(Table.compact, tables)] for tables in (data, test or ()))
    return SweepPlan(own, method, options, None if test is None else tested)


def _points(plan: SweepPlan, over: Mapping[str, Sequence[Any]]) -> list[Point]:
    if not isinstance(over, Mapping) or not over:
        raise ConfigError(f"over={over!r} names nothing to sweep over; give {{'seed': [0, 1, 2]}}, for instance.")
    for key, values in over.items():
        plan.check_key(key)
        if isinstance(values, str) or not isinstance(values, Sequence | range) or not len(values):
            raise ConfigError(f"over= has {key}={values!r}; give a list of values, such as {key}=[1, 2].")
    try:
        plain: dict[str, list[Any]] = json.loads(json.dumps({key: list(values) for key, values in over.items()}))
    except TypeError as error:
        raise ConfigError(
            f"over= holds a value that cannot be written down: {error}; use plain numbers and texts."
        ) from None
    if len(plain.get("epochs", [])) and len(plain.get("rounds", [])):
        raise ConfigError("over= has epochs and rounds, which say the same; keep one of them.")
    return grid(plain)


def _claimed(folder: Path, plan: SweepPlan) -> Path:
    """The folder, if it is empty or holds a sweep with the same base."""
    now, place = plan.description(), folder / "sweep.json"
    if not place.exists():
        write_text(place, json.dumps(now, indent=2))
        return folder
    was = _read(place)
    if not isinstance(was, dict):
        raise FolderError(f"{place} does not describe a sweep; it is damaged: bring it back, or choose another folder.")
    for part in now:
        if was.get(part) != now[part]:
            raise FolderError(
                f"the folder {folder} holds a sweep with other {part}, {_difference(was.get(part), now[part])}; "
                "undo that or choose another folder."
            )
    return folder


def _difference(was: Any, now: Any) -> str:
    if isinstance(was, dict) and isinstance(now, dict):
        key = next(key for key in {**was, **now} if was.get(key) != now.get(key))
        return f"{key}={was.get(key)!r} instead of {now.get(key)!r}"
    return "which are not those given"


def _file(folder: Path, point: Point) -> Path:
    return folder / f"{hashlib.sha256(json.dumps(stored_names(point), sort_keys=True).encode()).hexdigest()[:16]}.json"


def _read(place: Path) -> Kept | None:
    """The JSON of a file; None if the file is not there or not complete."""
    try:
        kept: Kept = read_json(place)
    except (OSError, ValueError):
        return None
    return kept


def _read_point(place: Path, point: Point) -> Kept | None:
    """The result in a point's file, after a check of its form and digest; None if there is no complete file."""
    kept = _read(place)
    if kept is None:
        return None
    wrong = first_wrong(kept, KEPT)
    if wrong is None and from_stored_names(kept["point"]) != point:
        wrong = Wrong("point", kept["point"], f"{point}")
    if wrong is None and kept.pop("digest", None) not in (None, _digest(kept)):  # older folders have none
        wrong = Wrong("digest", "another one", "that of the rest")
    if wrong is not None:
        raise FolderError(
            f"{place} does not say what a point of a sweep came to: {wrong}; delete it to train it again."
        )
    return {**kept, "point": point}


def _digest(kept: Kept) -> str:
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _row(kept: Kept) -> Row:
    return {**kept["point"], **kept.get("found", {}), **({"error": kept["error"]} if "error" in kept else {})}


# the points that are not in the folder yet


def _work(plan: SweepPlan, todo: list[Point], folder: Path, processes: int, cluster: Cluster | None) -> Iterator[Kept]:
    if cluster is not None:
        for point, result in over_cluster(plan, todo, cluster):
            yield _result_or_failure(point, lambda point=point, result=result: _settle(point, folder, result))  # type: ignore[misc]
    elif processes == 1:
        for point in todo:
            yield _result_or_failure(point, lambda point=point: _settle(point, folder, lambda: result_at(plan, point)))  # type: ignore[misc]
    elif todo:
        yield from _over_processes(plan, todo, folder, min(processes, len(todo)))


def _over_processes(plan: SweepPlan, todo: list[Point], folder: Path, processes: int) -> Iterator[Kept]:
    try:
        ForkingPickler.dumps(plan)  # as the pool will do it; nobody else's data is unpickled
    except Exception as error:
        raise ConfigError(
            f"a sweep over processes cannot send them a model or optimiser of your own ({error}); define it at the "
            "top of a module, or use processes=1."
        ) from None
    pool = ProcessPoolExecutor(processes, SPAWN, _begin, (plan, cores() // processes))
    try:
        points = {pool.submit(_settle_here, point, folder): point for point in todo}
        for future in as_completed(points):
            yield _result_or_failure(points[future], future.result)
    except BrokenProcessPool:
        raise TrainingError(
            "a process of the sweep ended before its point was done: it was killed, or the script calls cn.sweep "
            'outside of if __name__ == "__main__":; what is done is kept, so call it again.'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _result_or_failure(point: Point, result: Callable[[], Kept]) -> Kept:
    """A point's result. An unexpected error becomes a result too, but no file, so that the next call tries it again."""
    try:
        return result()
    except (BrokenProcessPool, FolderError):
        raise
    except Exception as error:
        return {"point": point, "error": f"{type(error).__name__}: {error}"}


def _settle(point: Point, folder: Path, result: Callable[[], Kept]) -> Kept:
    """Write a point's result to its file, or the sentence with which Colonnade refused it."""
    try:
        kept = result()
    except ColonnadeError as error:
        kept = {"point": point, "error": str(error)}
    write_text(_file(folder, point), json.dumps({**kept, "digest": _digest(kept)}))
    return kept


_plans: list[SweepPlan] = []  # in a process of the pool: its plan, which is sent once and not with every point


def _begin(plan: SweepPlan, share: int) -> None:
    """``share`` is how many cores each process of the pool may keep busy."""
    torch.set_num_threads(1)
    keep_to(share)
    _plans.append(plan)


def _settle_here(point: Point, folder: Path) -> Kept:
    return _settle(point, folder, lambda: result_at(_plans[-1], point))
