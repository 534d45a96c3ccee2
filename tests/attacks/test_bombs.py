"""Small files that unpack into much: each is refused by name, or read a little at a time, in 50 MB more than others."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import colonnade as cn
from colonnade.tables.sheets.ipc_sizes import batch_sizes
from colonnade.tables.sheets.page_headers import pages
from colonnade.tables.sheets.parquet_limits import longest_of

MOST_MB = 50.0
CHILD = """
import json, resource, sys
import colonnade as cn

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

cn.read(sys.argv[1], id="id").describe()
before = peak()
for path in sys.argv[2:]:
    try:
        told = "\\n".join(cn.read(path, id="id").describe().split()[:8])
    except cn.ColonnadeError as error:
        told = str(error)
    print(json.dumps([path, told, peak() - before]), flush=True)
"""


def same(value: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.array([value]))


def parquet(columns: Callable[[], dict[str, pa.Array]], **options: object) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        made = columns()
        rows = len(next(iter(made.values())))
        table = pa.table(made if "id" in made else {"id": np.arange(rows), **made})
        pq.write_table(table, path, compression="zstd", **options)

    return write


def zipped(lines: Callable[[], Iterable[bytes]]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=6) as file:
            file.writelines(lines())

    return write


def feather(columns: Callable[[], dict[str, pa.Array]], *, stream: bool = False) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        made = columns()
        rows = len(next(iter(made.values())))
        table = pa.table(made if "id" in made else {"id": np.arange(rows), **made})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), table.schema, options=options) as file:
            file.write_table(table)

    return write


def views() -> dict[str, pa.Array]:
    """Texts that all are the same bytes of one buffer."""
    one = pa.array(["x" * (900 << 10)], pa.string_view())
    entry = np.frombuffer(one.buffers()[1], np.uint8)
    repeated = pa.py_buffer(np.tile(entry, 2000).tobytes())
    return {"x": pa.Array.from_buffers(pa.string_view(), 2000, [None, repeated, *one.buffers()[2:]])}


def list_of(count: int) -> pa.Array:
    return pa.ListArray.from_arrays([0, count], pa.array(np.zeros(count, np.int64)))


def zeros(columns: int, rows: int) -> dict[str, pa.Array]:
    column = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.array([0.0]))
    return {f"x{k}": column for k in range(columns)}


PLAIN = {"use_dictionary": False}
PREFIXES = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY", "id": "PLAIN"}}
LARGE = 24 << 20
BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "one.parquet": (parquet(lambda: {"x": pa.array(["x" * LARGE])}, **PLAIN), "has a page of 24 MB in column 'x'"),
    "among.parquet": (
        parquet(lambda: {"x": pa.array(["y", "x" * LARGE, *10_000 * ["y"]])}, **PLAIN),
        "has a page of 24 MB in column 'x'",
    ),
    "long.parquet": (
        parquet(lambda: {"x": same("x" * (3 << 20), 50_000)}),
        "has a value of 3 MB or more in column 'x'; 1 MB is the most",
    ),
    "list.parquet": (parquet(lambda: {"x": list_of(1 << 22)}), "has lists of 32 MB in column 'x.list.element'"),
    "ids.parquet": (
        parquet(lambda: {"id": same("a", 3_000_000)}, data_page_size=1 << 30),
        "the ids of 'ids' in column 'id' take more than",
    ),
    "texts.parquet": (
        parquet(lambda: {"id": same("a" * 4000, 40_000)}),
        "the ids of 'texts' in column 'id' take more than",
    ),
    "longid.parquet": (parquet(lambda: {"id": same("a" * 5000, 9)}), "has 5,000 bytes, and 4,096 is the most"),
    "cells.parquet": (
        parquet(lambda: {"id": same("a", 500_000), **zeros(99, 500_000)}, max_rows_per_page=1 << 30),
        "500,000 rows of 100 columns",
    ),
    "ids.csv.gz": (zipped(lambda: [b"id,x\n", b"a,0\n" * (4 << 20)]), "the ids of 'ids' in column 'id' take more than"),
    "cells.csv.gz": (
        zipped(
            lambda: [b"id," + b",".join(b"x%d" % k for k in range(3000)) + b"\n", *6000 * [b"a" + b"," * 3000 + b"\n"]]
        ),
        "rows of 3,001 columns;",
    ),
    "text.csv.gz": (
        zipped(lambda: [b"id,x\n", *(b"%d," % k + b" " * (1 << 20) + b"\n" for k in range(110))]),
        "unpacks into more than",
    ),
    "line.csv.gz": (zipped(lambda: [b"id,x\na,", b"0" * LARGE]), "has a row of more than 8 MB"),
    "names.csv.gz": (zipped(lambda: [b"x" * LARGE]), "a line of it has more than 8 MB"),
    "empty.csv.gz": (zipped(lambda: [b"\n" * (8 << 20)]), "has 10,000 empty lines on top"),
}
ARROW: dict[str, tuple[Callable[[Path], None], str]] = {
    "zeros.feather": (feather(lambda: {"id": pa.array(np.zeros(8 << 20))}), "unpacks from"),
    "ends.arrows": (feather(lambda: {"id": pa.array(np.zeros(8 << 20))}, stream=True), "unpacks from"),
    "dictionary.arrow": (
        feather(lambda: {"x": pa.DictionaryArray.from_arrays(np.zeros(9, np.int8), pa.array(["x" * (40 << 20)]))}),
        "unpacks from",
    ),
    "long.feather": (
        feather(lambda: {"x": same("x" * (3 << 20), 50_000)}),
        "has a value of 3 MB or more in column 'x'",
    ),
    "ids.feather": (feather(lambda: {"id": same("a", 3_000_000)}), "the ids of 'ids' in column 'id' take more than"),
}
BOMBS |= ARROW
READ: dict[str, Callable[[Path], None]] = {  # these are odd, but a little of them at a time is no harm
    "every.parquet": parquet(lambda: {"x": same("x" * (900 << 10), 200)}),
    "every.feather": feather(lambda: {"x": same("x" * (900 << 10), 200)}),
    "views.feather": feather(views),
    "before.parquet": parquet(lambda: {"x": pa.array(200 * ["x" * (700 << 10)])}, **PREFIXES),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float]]:
    """What a process says of each file, and how much its memory had grown by then."""
    folder = tmp_path_factory.mktemp("bombs")
    usual = folder / "usual.parquet"
    texts = np.random.default_rng(0).integers(0, 1000, 300_000)
    usual_table = {"id": [f"user{k:08d}" for k in range(300_000)], "x": texts.astype(str), "y": texts / 7}
    pq.write_table(pa.table(usual_table), usual)
    writers = {name: write for name, (write, _) in BOMBS.items()} | READ
    for name, write in writers.items():
        write(folder / name)
        assert (folder / name).stat().st_size < 400_000, name
    command = [sys.executable, "-c", CHILD, str(usual), *(str(folder / name) for name in writers)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout.splitlines()
    return {Path(path).name: (said, grown) for path, said, grown in map(json.loads, lines)}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_into_much_is_refused_in_little_memory(
    name: str, told: dict[str, tuple[str, float]]
) -> None:
    said, grown = told[name]
    assert BOMBS[name][1] in said and said.endswith(".") and "\n" not in said
    assert name.partition(".")[0] in said
    assert grown < MOST_MB, said


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_long_texts_are_read_a_few_at_a_time(name: str, told: dict[str, tuple[str, float]]) -> None:
    said, grown = told[name]
    assert "category" in said and grown < MOST_MB


def test_a_batch_that_only_the_end_of_a_file_names_is_not_read(tmp_path: Path) -> None:
    """The list at the end of an Arrow file may name batches that a reader from its beginning never comes to."""
    path = tmp_path / "a.feather"
    feather(lambda: {"x": pa.array([1.0, 2.0])})(path)
    assert cn.read(path, id="id").rows == 2
    small = [one.unpacked for one in batch_sizes(path)]
    assert len(small) == 1 and small[0] < 100
    feather(lambda: {"id": pa.array(np.zeros(8 << 20))})(path)
    assert max(one.unpacked for one in batch_sizes(path)) >= 64 << 20


def test_headers_of_arrow_messages_that_are_none(tmp_path: Path) -> None:
    """Any change of a header: sizes, or a TableError, and never another error."""
    path, draw = tmp_path / "a.feather", random.Random(0)
    feather(lambda: {"x": pa.array(["a", "b"]), "y": same("c", 2)})(path)
    whole, refused = path.read_bytes(), 0
    for _ in range(1500):
        raw = bytearray(whole)
        for _ in range(draw.choice((1, 2, 8))):
            raw[draw.randrange(8, len(raw))] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        path.write_bytes(bytes(raw[: draw.choice((len(raw), draw.randrange(len(raw))))]))
        try:
            list(islice(batch_sizes(path), 1000))
        except cn.ColonnadeError:
            refused += 1
    assert 50 < refused < 1500


def test_sparse_tables_are_no_bombs(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    cells = (random.random((20_000, 220)) < 0.01).astype(np.int8)
    columns = {"id": np.arange(len(cells)), **{f"x{k}": cells[:, k] for k in range(cells.shape[1])}}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", compression="zstd")
    pa_csv.write_csv(pa.table(columns), tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    for compression, name in (("zstd", "c.feather"), ("lz4", "d.feather")):
        pa.feather.write_feather(pa.table(columns), tmp_path / name, compression=compression)
    for name in ("a.parquet", "b.csv.gz", "c.feather", "d.feather"):
        found = cn.read(tmp_path / name, id="id").columns(["x7"])["x7"]
        np.testing.assert_array_equal(found, cells[:, 7])


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_lengths_of_texts_make_no_difference(compression: str, tmp_path: Path) -> None:
    texts = ["", "a", "b" * 300, "c" * 40_000, "\0\0\0\0", "d", None] * 400
    table = pa.table({"id": np.arange(len(texts)), "x": texts, "y": [[k] for k in range(len(texts))]})
    for options in ({}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"row_group_size": 100}):
        pq.write_table(table, tmp_path / "a.parquet", compression=compression, **options)
        sheet = cn.read(tmp_path / "a.parquet", id="id", missing=[])
        assert sheet.columns(["x"])["x"].tolist() == texts
        assert sheet.describe()


def test_the_longest_text_of_a_dictionary() -> None:
    def entries(*texts: bytes) -> bytes:
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)

    assert longest_of(entries(b"a", b"b" * 255, b"cc"), 3) == 255
    for odd in ((b"a", b"b" * 256), (b"a\0\0\0", b"b"), (b"\1\0\0\0",)):
        assert longest_of(entries(*odd), len(odd)) is None, odd
    assert longest_of(b"", 0) is None and longest_of(entries(b"a"), 2) is None


def test_headers_of_pages_that_are_none() -> None:
    """Any bytes at all: some pages, or a ValueError."""
    draw, seen = random.Random(0), 0
    for _ in range(3000):
        raw = draw.randbytes(draw.randrange(40))
        try:
            seen += len([*pages(BytesIO(raw), 0, len(raw))])
        except ValueError:
            continue
    assert seen < 300


def test_a_page_that_says_it_is_larger_is_refused(tmp_path: Path) -> None:
    """The file's own index may lie; the page's header is what pyarrow believes."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a" * 300, "b"]}), path, compression="snappy", use_dictionary=False)
    raw = path.read_bytes()
    with path.open("rb") as file:
        about = pq.read_metadata(path).row_group(0).column(0)
        (page,) = pages(file, about.data_page_offset, about.total_compressed_size)

    def varint(number: int) -> bytes:
        number *= 2
        return bytes([number & 127 | 128, number >> 7]) if number < 1 << 14 else b"\x80\x80\x80\x80\x04"

    header = raw[about.data_page_offset : page.at]
    forged = header.replace(varint(page.size), varint(1 << 29), 1)
    cut = raw[: about.data_page_offset] + forged + raw[page.at :]
    assert len(forged) == len(header) + 3
    path.write_bytes(cut)
    with pytest.raises(cn.ColonnadeError, match="a page of 512 MB in column 'id'"):
        cn.read(path, id="id")
