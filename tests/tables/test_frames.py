"""DataFrames and other tables in memory, where files can be given; and what is said of them elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConfigError, TableError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

ROWS = 60


class Exports:
    """A table of whatever library that hands its columns over as an Arrow stream, as Polars does."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def frame() -> Any:
    random = np.random.default_rng(0)
    age = random.integers(18, 80, ROWS).astype(float)
    age[3] = np.nan
    return pd.DataFrame(
        {
            "who": [f"P{k:03}" for k in range(ROWS)],
            "age": age,
            "job": random.choice(["smith", "cook", None], ROWS),
            "member": random.random(ROWS) < 0.5,
            "churn": random.integers(0, 2, ROWS),
        }
    )


def prepared(source: Any, **how: Any) -> tuple[tuple[str, ...], list[list[float]]]:
    """The columns' names, and what a model would see."""
    (train,), _ = cn.prepare([cn.read(source, id="who", label="churn", **how)], test=0)
    return train.column_names, train.columns[np.argsort(train.ids)].tolist()


def test_a_frame_is_read_like_its_file(frame: Any, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "same.csv", index=False)
    whole = prepared(tmp_path / "same.csv")
    assert "job=smith" in whole[0] and prepared(frame) == whole
    arrow = pa.Table.from_pandas(frame)
    for same in (Exports(arrow), [frame[:20], frame[20:]], arrow.to_batches()[0], pa.table(arrow.to_pydict())):
        assert prepared(same) == whole


def test_a_part_of_a_table_has_the_ids_of_its_rows() -> None:
    """A cast of Arrow's of long texts kept the place of a part, and lower case was that of other rows."""
    whole = pa.table({"who": pa.array([f"P{k:03}" for k in range(ROWS)], pa.large_string())})
    assert cn.read(whole.slice(20), id="who").ids.tolist() == [f"p{k:03}" for k in range(20, ROWS)]


def test_a_named_index_is_a_column_and_row_numbers_are_none(frame: Any) -> None:
    some = frame[frame.churn == 1]  # its index is that of the whole
    assert "__index_level_0__" not in cn.read(some, id="who").kinds
    sheet = cn.read(frame.set_index("who"), id="who", name="bank")
    assert (sheet.rows, sheet.name, sheet.kinds["job"], sheet.ids[0]) == (ROWS, "bank", "category", "p000")


def test_two_companies_of_frames_align_train_and_score(frame: Any) -> None:
    shop = frame.sample(frac=1, random_state=1)[["who", "age", "member"]]
    sheets = [
        cn.read(frame[["who", "job", "churn"]], id="who", label="churn", name="bank"),
        cn.read(shop, id="who", name="shop"),
    ]
    train, _ = cn.prepare(sheets, cn.align(sheets, mode="plain"), test=0)
    run = cn.train(train, "fdml", rounds=2)
    assert len(cn.score(run, sheets, mode="plain").ids) == ROWS == len(train[0])


@pytest.mark.parametrize("do", [cn.prepare, cn.align, lambda sheets: cn.score(cn.Run.__new__(cn.Run), sheets)])
def test_frames_in_place_of_sheets_are_explained(frame: Any, do: Any) -> None:
    for given in (frame, [frame, frame]):
        with pytest.raises(TableError, match=r"a DataFrame came where sheets are expected; .* colonnade\.read\(frame"):
            do(given)


def test_what_is_no_table_is_named() -> None:
    with pytest.raises(TableError, match="a ndarray came where files are expected"):
        cn.read(np.zeros((3, 2)), id="who")
    with pytest.raises(TableError, match="a int came where files are expected"):
        cn.read(7, id="who")
    with pytest.raises(TableError, match=r"the DataFrame cannot be read as a table \(.*astype\(str\)"):
        cn.read(pd.DataFrame({"who": ["a", "b"], "mixed": [1, "x"]}), id="who")


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_columns_of_numbers_make_tables_with_their_names(frame: Any, kind: str) -> None:
    numbers = frame[["member", "churn"]].assign(age=frame.age.fillna(40.0), visits=pd.array([1] * ROWS, "Int64"))
    numbers = numbers[["age", "member", "visits"]]
    given = numbers if kind == "pandas" else pa.Table.from_pandas(numbers)
    table = cn.Table(frame.who, given, frame.churn, name="bank")
    assert table.column_names == ("age", "member", "visits") and table.columns[0].tolist() == [*numbers.iloc[0]]
    bank, shop = cn.split(given, frame.churn, {"bank": ["age", "visits"], "shop": ["member"]}, owner="first")
    assert (bank.column_names, shop.column_names) == (("age", "visits"), ("member",))


def test_texts_are_no_columns_of_a_table(frame: Any) -> None:
    for make in (lambda: cn.Table(frame.who, frame), lambda: cn.split(frame, frame.churn, 2)):
        with pytest.raises(TableError, match=r"column 'who' .* encode text columns first, as colonnade\.read"):
            make()


def test_training_on_arrays_or_frames_says_what_to_write(frame: Any) -> None:
    X, y = np.zeros((4, 2)), np.zeros(4)
    for given in ((X, y), ([X, X],), (frame, frame.churn), ([frame, frame],)):
        with pytest.raises(TableError, match=r" a (ndarray|DataFrame)( came)?; cut arrays .*split\(X, y"):
            cn.train(*given)
    tables = cn.split(X, [0, 1, 0, 1], 2)
    with pytest.raises(ConfigError, match="a list came as the method; give a name such as 'splitnn'"):
        cn.train(tables, tables)  # type: ignore[arg-type]
