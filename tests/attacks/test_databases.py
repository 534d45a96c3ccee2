"""A DuckDB database from somebody else, whose views read files of whoever opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import TableError

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

SECRET = "the key of the shop"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A table of customers, and a view that looks like one."""
    (tmp_path / "shop.key").write_text(SECRET)
    path = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(path)) as connection:
        town = f"(SELECT content FROM read_text('{tmp_path / 'shop.key'}'))"
        connection.execute("CREATE TABLE customers AS SELECT range AS who, 'Ghent' AS town FROM range(40)")
        connection.execute(f"CREATE VIEW clients AS SELECT who, {town} AS town FROM customers")
    return path


@pytest.mark.parametrize("what", ["table=clients", "query=SELECT * FROM clients"])
def test_a_view_reads_no_other_file(what: str, database: Path) -> None:
    """Every row's town would be the key: `colonnade describe` shows texts that enough rows have."""
    with pytest.raises(TableError, match=r"cannot be read .*shop\.key.* disabled by configuration"):
        cn.read(f"duckdb:{database}?{what}", id="who")
    assert cn.read(f"duckdb:{database}?table=customers", id="who").rows == 40
    with duckdb.connect(str(database), read_only=True) as connection:  # the control: the view does read it
        assert connection.sql("SELECT DISTINCT town FROM clients").fetchall() == [(SECRET,)]
