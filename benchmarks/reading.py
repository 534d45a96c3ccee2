"""Reading and preparing large files: seconds of CPU and peak memory, each cell a process of its own.

A Parquet file of ten million rows, of which the ids are read and a million rows prepared; and a million rows by a
hundred columns over four parties, read, prepared and trained on for one epoch. The files are written to a temporary
folder first and removed afterwards; writing is not counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from benchmarks.table import show

LONG, SLICE = 10_000_000, 1_000_000
ROWS, COLUMNS, PARTIES = 1_000_000, 100, 4
GROUP = 1 << 17  # rows of a row group
Rows = list[tuple[str, float, float]]
TARGETS = {"seconds": 60, "megabytes": 2000}


def write_long(folder: Path) -> Rows:
    """Ten million rows: an id, seven numbers with gaps, two categories."""
    _write(folder / "long.parquet", LONG, numbers=7, categories=2, label=False)
    return []


def write_wide(folder: Path) -> Rows:
    """Four files of a million rows and 25 columns each, the first with the label."""
    for k in range(PARTIES):
        _write(folder / f"party-{k}.parquet", ROWS, numbers=COLUMNS // PARTIES, categories=0, label=k == 0, seed=k)
    return []


def _write(path: Path, rows: int, numbers: int, categories: int, label: bool, seed: int = 0) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    random, writer = np.random.default_rng(seed), None
    for start in range(0, rows, GROUP):
        count = min(GROUP, rows - start)
        columns: dict[str, Any] = {"id": pa.array([f"user{k:08d}" for k in range(start, start + count)])}
        for k in range(numbers):
            values = random.normal(50, 10, count)
            columns[f"x{k}"] = pa.array(values, mask=values > 65)
        for k in range(categories):
            columns[f"c{k}"] = pa.array(np.array(["red", "green", "blue", "grey"])[random.integers(0, 4, count)])
        if label:
            columns["y"] = pa.array((columns["x0"].to_numpy(zero_copy_only=False) > 50).astype(np.int8))
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP)
    assert writer is not None
    writer.close()


class Watch:
    """CPU seconds and peak memory, step by step."""

    def __init__(self) -> None:
        self.rows: Rows = []
        self.began = time.process_time()

    def note(self, what: str) -> None:
        now = time.process_time()
        self.rows.append((what, now - self.began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
        self.began = time.process_time()


def read_long(folder: Path) -> Rows:
    watch = Watch()
    watch.note("import colonnade")
    sheet = cn.read(folder / "long.parquet", id="id")
    watch.note("read: hash, ids, no id twice")
    assert len(sheet.ids) == LONG
    watch.note("ids as a numpy array")
    from colonnade.tables.prepare import fit

    rows = np.random.default_rng(0).choice(LONG, SLICE, replace=False)
    preparation = fit(sheet, rows)
    watch.note("fit on a million scattered rows")
    columns = preparation.apply(sheet, rows)
    watch.note(f"prepare them: {columns.shape[1]} columns, {columns.nbytes / 2**20:.0f} MB")
    return watch.rows


def train_wide(folder: Path, method: str) -> Rows:
    watch = Watch()
    watch.note("import colonnade")
    sheets = [cn.read(folder / f"party-{k}.parquet", id="id", label="y" if k == 0 else None) for k in range(PARTIES)]
    watch.note("read")
    train, _ = cn.prepare(sheets, test=0.01)
    watch.note("prepare")
    del sheets
    cn.train(train, method, epochs=1, batch=1024)
    watch.note(f"train, one epoch of {method}")
    return watch.rows


CELLS: dict[str, Callable[..., Rows]] = {
    "write long": write_long,
    "write wide": write_wide,
    "long": read_long,
    "wide": train_wide,
}


def apart(*arguments: str) -> list[list[Any]]:
    """A cell in a process of its own; also writing, because a child's peak memory starts at its parent's."""
    command = [sys.executable, "-m", "benchmarks.reading", "--cell", *arguments]
    found: list[list[Any]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def _table(title: str, rows: list[list[Any]]) -> None:
    cells = [[what, f"{seconds:.1f}", f"{megabytes:.0f}"] for what, seconds, megabytes in rows]
    show(title, ["step", "CPU s", "peak memory so far, MB"], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", nargs="+", metavar="WHAT")
    parser.add_argument("--parts", nargs="+", default=["long", "wide"], choices=["long", "wide"])
    parser.add_argument("--methods", nargs="+", default=["splitnn", "fdml"])
    options = parser.parse_args()
    if options.cell:
        what, folder, *method = options.cell
        print(json.dumps(CELLS[what](Path(folder), *method)))
        return
    with tempfile.TemporaryDirectory() as name:
        if "long" in options.parts:
            apart("write long", name)
            size = (Path(name) / "long.parquet").stat().st_size / 2**20
            _table(f"a Parquet file of {LONG:,} rows and 10 columns, {size:.0f} MB", apart("long", name))
            (Path(name) / "long.parquet").unlink()
        if "wide" in options.parts:
            apart("write wide", name)
            for method in options.methods:
                _table(f"{ROWS:,} rows by {COLUMNS} columns over {PARTIES} parties", apart("wide", name, method))
            print(f"\nTargets: {TARGETS['seconds']} CPU s for the epoch, {TARGETS['megabytes']} MB.")


if __name__ == "__main__":
    main()
