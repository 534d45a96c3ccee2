"""DuckDB tables and queries, Arrow files and Arrow data in memory as sources of ``cn.read``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import TableError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import gather
from colonnade.tables.sheets import paths

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, ipc  # noqa: E402

ROWS = 300


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    return pa.table(
        {
            "who": [f"p{k:03}" for k in range(ROWS)],
            "age": pa.array(np.where(random.random(ROWS) < 0.1, None, random.integers(18, 80, ROWS)), pa.int64()),
            "job": random.choice(["smith", "cook"], ROWS),
            "day": pa.array([19_000 + k for k in range(ROWS)], pa.date32()),
            "default": random.integers(0, 2, ROWS),
        }
    )


def prepared(sheet: cn.Sheet) -> np.ndarray:
    """What a model would see of a sheet, by id."""
    (train,), _ = cn.prepare([sheet], test=0)
    return train.columns.numpy()[np.argsort(train.ids)]


def as_csv(table, folder: Path) -> np.ndarray:
    from pyarrow import csv

    csv.write_csv(table, folder / "same.csv")
    return prepared(cn.read(folder / "same.csv", id="who", label="default", leave_out=["day"]))


# Arrow


def ipc_file(table, path: Path) -> Path:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return path


def ipc_stream(table, path: Path) -> Path:
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return path


def feather_file(table, path: Path) -> Path:
    feather.write_feather(table, path, compression="zstd")
    return path


@pytest.mark.parametrize(
    ("write", "name"), [(ipc_file, "shop.arrow"), (ipc_stream, "shop.arrows"), (feather_file, "shop.feather")]
)
def test_arrow_files_are_read_as_csv_is(write, name, table, tmp_path):
    path = write(table, tmp_path / name)
    sheet = cn.read(path, id="who", label="default", leave_out=["day"])
    assert (sheet.name, sheet.rows, sheet.kinds) == (
        "shop", ROWS, {"age": "number", "job": "category", "day": "left out"},
    )  # fmt: skip
    assert np.array_equal(prepared(sheet), as_csv(table, tmp_path))
    sheet.check_unchanged()
    write(table.slice(1), path)
    with pytest.raises(cn.ColonnadeError, match="have changed since they were read"):
        sheet.check_unchanged()


@pytest.mark.parametrize("form", ["table", "reader", "batch", "two tables"])
def test_arrow_data_in_memory(form, table, tmp_path):
    data = {
        "table": table,
        "reader": table.to_reader(max_chunksize=50),
        "batch": table.combine_chunks().to_batches()[0],
        "two tables": [table.slice(0, 100), table.slice(100)],
    }[form]
    sheet = cn.read(data, id="who", label="default", leave_out=["day"], name="shop")
    assert sheet.name == "shop" and sheet.rows == ROWS
    assert np.array_equal(prepared(sheet), as_csv(table, tmp_path))
    assert sheet.columns(["age"], rows=[250, 3])["age"].tolist() == pytest.approx(
        [float(table["age"][k].as_py() or "nan") for k in (250, 3)], nan_ok=True
    )
    sheet.check_unchanged()


def test_the_digest_is_that_of_the_values(table):
    how = {"id": "who", "label": "default", "leave_out": ["day"]}
    one, same = cn.read(table, **how), cn.read(table.to_reader(max_chunksize=9), **how)
    assert one.digest == same.digest != cn.read(table.slice(1), **how).digest


def damaged(path: Path) -> Path:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path


def offsets_that_lead_out(path: Path) -> Path:
    """An IPC stream with a text that ends far behind its bytes: Arrow itself would read there."""
    ipc_stream(pa.table({"who": ["abc", "defg", "hijkl"], "age": [1, 2, 3]}), path)
    right, wrong = (np.array([0, 3, 7, last], np.int32).tobytes() for last in (12, 2**30))
    assert path.read_bytes().count(right) == 1
    path.write_bytes(path.read_bytes().replace(right, wrong))
    return path


def test_bad_arrow_files_are_told_in_one_sentence(table, tmp_path):
    (tmp_path / "text.arrow").write_text("who,age\n1,2\n")
    (tmp_path / "empty.arrow").write_bytes(b"")
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(100))
    paths = {
        damaged(ipc_file(table, tmp_path / "half.arrow")): "is no Arrow file, or a damaged one",
        damaged(ipc_stream(table, tmp_path / "half.arrows")): "is no Arrow file, or a damaged one",
        tmp_path / "text.arrow": "is no Arrow file",
        tmp_path / "empty.arrow": "is no Arrow file",
        tmp_path / "old.feather": "a Feather file of version 1",
    }
    for path, told in paths.items():
        with pytest.raises(cn.ColonnadeError, match=told):
            cn.read(path, id="who")
    bent = offsets_that_lead_out(tmp_path / "bent.arrows")
    with pytest.raises(cn.ColonnadeError, match="damaged one"):
        cn.read(bent, id="who")


def test_what_is_no_source(table):
    with pytest.raises(cn.ColonnadeError, match="the ChunkedArray cannot be read as a table"):
        cn.read(table["age"], id="who")
    with pytest.raises(cn.ColonnadeError, match="no kind that is read here"):
        cn.read(__file__, id="who")
    with pytest.raises(cn.ColonnadeError, match="has no id column 'whom'; did you mean 'who'"):
        cn.read(table, id="whom")


# DuckDB


@pytest.fixture(scope="module")
def database(table, tmp_path_factory):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed; pip install 'colonnade[duckdb]'")
    path = tmp_path_factory.mktemp("duckdb") / "shop.duckdb"
    shuffled = table.take(np.random.default_rng(1).permutation(ROWS))
    with duckdb.connect(str(path)) as connection:
        connection.register("given", shuffled)
        connection.execute("CREATE TABLE customers AS SELECT * FROM given")
        connection.execute("CREATE SCHEMA sales")
        connection.execute('CREATE TABLE sales."the customers" AS SELECT * FROM given')
        connection.execute("CREATE TABLE nobody AS SELECT * FROM given LIMIT 0")
    return path


@pytest.mark.parametrize(
    "what",
    [
        "table=customers",
        "table=sales.the customers",
        "query=SELECT * FROM customers",
        "query=SELECT * REPLACE (age > 40 OR age = 3 AS age) FROM customers;",
        'query=SELECT c.*, 1 = 1 AS yes FROM customers c JOIN sales."the customers" USING (who) -- a remark',
    ],
)
def test_a_table_or_a_query_is_read_as_csv_is(what, database, table, tmp_path):
    sheet = cn.read(f"duckdb:{database}?{what}", id="who", label="default", leave_out=["day"])
    assert sheet.name == "shop" and sheet.rows == ROWS
    assert sheet.ids.tolist() == table["who"].to_pylist(), "in the order of the ids, whatever the table's is"
    if "REPLACE" not in what:
        same = as_csv(table, tmp_path)
        assert np.array_equal(prepared(sheet)[:, : same.shape[1]], same)
    sheet.check_unchanged()


def test_a_query_reads_files_by_itself(database, table, tmp_path):
    from pyarrow import parquet

    parquet.write_table(table.slice(0, 100), tmp_path / "part-1.parquet")
    parquet.write_table(table.slice(100), tmp_path / "part-2.parquet")
    text = f"duckdb:?query=SELECT * FROM '{tmp_path}/part-*.parquet' WHERE age > 30"
    sheet = cn.read(text, id="who", label="default", leave_out=["day"], name="shop")
    assert sheet.rows == sum((age or 0) > 30 for age in table["age"].to_pylist())
    parquet.write_table(table.slice(0, 99), tmp_path / "part-1.parquet")
    with pytest.raises(cn.ColonnadeError, match="have changed"):
        sheet.check_unchanged()


def test_a_job_names_a_database_beside_itself(database, table, tmp_path):
    from pyarrow import csv

    csv.write_csv(table.select(["who", "default"]), database.parent / "bank.csv")
    (database.parent / "job.toml").write_text(
        """
        [[party]]
        name = "bank"
        files = "bank.csv"
        id = "who"
        label = "default"

        [[party]]
        name = "shop"
        files = "duckdb:shop.duckdb?query=SELECT who, age, job FROM customers WHERE age IS NOT NULL"
        id = "who"

        [align]
        mode = "plain"
        """
    )
    job = read_job(database.parent / "job.toml")
    gathered = gather(job)
    assert [table.name for table in gathered.train] == ["bank", "shop"]
    assert gathered.alignment is not None and gathered.alignment.count == ROWS - table["age"].null_count
    description = {"data": gathered.train[0].origin}
    job.data.check_unchanged(description, job.data.read())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("duckdb:{}", "names no table or query of a DuckDB database"),
        ("duckdb:{}?rows=customers", "names no table or query"),
        ("duckdb:{}?table=", "names no table or query"),
        ("duckdb:?table=customers", "names no table or query"),
        ("duckdb:{}.not?table=customers", "there is no DuckDB database"),
        ("duckdb:{}?table=costumers", "cannot be read .*costumers does not exist"),
        ("duckdb:{}?query=SELEC *", "cannot be read"),
        ("duckdb:{}?query=SELECT 1; DROP TABLE customers", "cannot be read"),
        ("duckdb:{}?query=DROP TABLE customers", "cannot be read"),
        ("duckdb:{}?table=nobody", "has no rows"),
        ("duckdb:{}?query=SELECT 'x' AS who FROM customers", "occurs more than once"),
        ("duckdb:{}?query=SELECT age FROM customers", "has no id column 'who'"),
        ("duckdb:{}?query=SELECT who, error('late') AS x FROM customers", "cannot be read"),
    ],
)
def test_bad_databases_are_told_in_one_sentence(text, told, database):
    with pytest.raises(cn.ColonnadeError, match=told) as caught:
        cn.read(text.format(database), id="who").columns(["x"])
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database(database, tmp_path):
    (tmp_path / "x.duckdb").write_bytes(b"hello" * 1000)
    with pytest.raises(cn.ColonnadeError, match="cannot be read"):
        cn.read(f"duckdb:{tmp_path / 'x.duckdb'}?table=t", id="who")


def test_without_duckdb_the_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    (tmp_path / "x.duckdb").write_bytes(b"")
    with pytest.raises(cn.ColonnadeError, match=r"pip install 'colonnade\[duckdb\]'"):
        cn.read(f"duckdb:{tmp_path / 'x.duckdb'}?table=t", id="who")


def test_duckdb_works_in_little_memory_and_leaves_nothing_behind(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = "current_setting('memory_limit') AS memory, current_setting('temp_directory') AS place"
    sheet = cn.read(f"duckdb:{database}?query=SELECT 1 AS who, {asked}", id="who")
    found = sheet.columns(["memory", "place"])
    assert found["memory"].tolist() == ["1.8 GiB"]
    assert Path(found["place"][0]).parent == tmp_path and not list(tmp_path.iterdir())


def test_ids_of_a_query_that_take_too_much_are_refused(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "DUCK_SIZE", 1 << 10)  # as if 8 GB were 24 MB, to be quick
    with pytest.raises(TableError, match=r"the ids of 'shop' in column 'who' take more than"):
        cn.read(f"duckdb:{database}?query=SELECT range AS who FROM range(3000000)", id="who")
