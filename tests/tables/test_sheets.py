"""Reading: CSV, gzip and Parquet give the same sheet, ids compare alike, and every bad file gets its sentence."""

from __future__ import annotations

import gzip
import io
import os
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import ColonnadeError, ConfigError, TableError
from colonnade.tables.sheets import arrow as arrow_module
from colonnade.tables.sheets import csv_file, parquet_limits
from colonnade.tables.sheets.id_rules import RULE, hashes, make_rule, normalise, normalised
from colonnade.tables.sheets.sheet import Sheet

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")

BANK = "ID,age,job,since,paid\nAnn,31,smith,2020-01-02,true\n Bob ,?,cook,2021-05-06,false\nCID,40.5,,2022-07-08,true\n"


def write(folder: Path, text: str, name: str = "bank.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def frame(rows: int = 500) -> Any:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "ID": [f"u{k}" for k in range(rows)],
            "age": np.where(random.random(rows) < 0.1, np.nan, random.normal(40, 10, rows).round(2)),
            "visits": random.integers(0, 9, rows),
            "job": random.choice(["smith", "cook", None], rows),
        }
    )


# What a sheet is


def test_a_csv_becomes_a_sheet(tmp_path: Path) -> None:
    sheet = cn.read(write(tmp_path, BANK), id="ID")
    assert (sheet.name, sheet.rows, sheet.label) == ("bank", 3, None)
    assert sheet.ids.tolist() == ["ann", "bob", "cid"]
    assert sheet.kinds == {"age": "number", "job": "category", "since": "date", "paid": "number"}
    found = sheet.columns(["age", "job", "paid"], rows=[2, 0])
    assert found["age"].tolist() == [40.5, 31.0] and found["age"].dtype == np.float32
    assert found["job"].tolist() == [None, "smith"] and found["paid"].tolist() == [1.0, 1.0]
    lines = sheet.describe().splitlines()
    assert lines[1].split() == ["age", "number", "1", "31,", "40.5"] and len(lines) == 5


def test_lists_in_the_job_win(tmp_path: Path) -> None:
    sheet = cn.read(write(tmp_path, BANK), id="ID", categories=["age"], leave_out=["since"], numbers=["job"])
    assert sheet.kinds == {"age": "category", "job": "number", "since": "left out", "paid": "number"}
    with pytest.raises(TableError, match=r"column 'job' of 'bank' holds 'smith' in row 1 where a number is expected"):
        sheet.columns(["job"])


def test_csv_gzip_and_parquet_are_the_same(tmp_path: Path) -> None:
    whole = frame()
    whole.to_csv(tmp_path / "a.csv", index=False)
    whole.to_csv(tmp_path / "b.csv.gz", index=False)
    whole.to_csv(tmp_path / "c.tsv", index=False, sep="\t")
    whole.to_parquet(tmp_path / "d.parquet", row_group_size=77)
    whole.assign(job=whole.job.astype("category")).to_parquet(tmp_path / "e.parquet")
    rows = np.random.default_rng(1).permutation(len(whole))[:123]
    sheets = [cn.read(tmp_path / name, id="ID") for name in ("a.csv", "b.csv.gz", "c.tsv", "d.parquet", "e.parquet")]
    for sheet in sheets:
        assert sheet.ids.tolist() == whole.ID.tolist() and sheet.kinds == sheets[0].kinds
        assert sheet.ids_at(rows).tolist() == whole.ID[rows].tolist()
        found = sheet.columns(rows=rows)
        np.testing.assert_array_equal(found["age"], whole.age[rows].to_numpy(np.float32))
        np.testing.assert_array_equal(found["visits"], whole.visits[rows].to_numpy(np.float32))
        assert [*found["job"]] == [None if pd.isna(word) else word for word in whole.job[rows]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_many_files_are_one_sheet(tmp_path: Path, kind: str) -> None:
    whole = frame()
    for k, part in enumerate((whole[:100], whole[100:450], whole[450:])):
        part.to_csv(tmp_path / f"card-{k}.csv", index=False)
        part.to_parquet(tmp_path / f"card-{k}.parquet")
    sheet = cn.read(str(tmp_path / f"card-*.{kind}"), id="ID")
    assert sheet.name == "card" and len(sheet.files) == 3 and sheet.rows == 500
    rows = [499, 0, 449, 450, 99, 100]
    assert sheet.ids_at(rows).tolist() == whole.ID[rows].tolist()
    assert sheet.columns(["visits"], rows)["visits"].tolist() == whole.visits[rows].tolist()


def test_the_size_of_batches_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_parquet(tmp_path / "a.parquet")
    before = cn.read(tmp_path / "a.parquet", id="ID").columns()
    monkeypatch.setattr(parquet_limits, "ROWS", 7)
    after = cn.read(tmp_path / "a.parquet", id="ID").columns()
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


def test_no_kind_is_guessed_from_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "_BLOCK", 256)
    lines = [f"{k},{k},{k}" for k in range(500)]
    path = write(tmp_path, "\n".join(["ID,late,number", *lines, "500,word,?"]))
    sheet = cn.read(path, id="ID")
    assert sheet.kinds == {"late": "category", "number": "number"} and sheet.rows == 501
    found = sheet.columns(rows=[500, 3, 499])
    assert found["late"].tolist() == ["word", "3", "499"] and found["number"].tolist()[1:] == [3.0, 499.0]
    with pytest.raises(TableError, match=r"column 'late' of 'bank' holds 'word' in row 501 where"):
        cn.read(path, id="ID", numbers=["late"]).columns()
    write(tmp_path, "\n".join(["ID,late,number", *lines, "500,word"]))
    with pytest.raises(TableError, match=r"line 502 of .* has 2 fields, but the header has 3"):
        cn.read(path, id="ID")


def test_only_wanted_row_groups_are_read(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "a.parquet", row_group_size=100)
    sheet = cn.read(tmp_path / "a.parquet", id="ID")
    assert [piece.rows.tolist() for piece in sheet.pieces(["age"], [250, 20])] == [[20], [250]]


def test_types_of_parquet_say_what_a_column_is(tmp_path: Path) -> None:
    columns = {
        "ID": pa.array([1, 2]),
        "yes": pa.array([True, None]),
        "price": pa.array([1, 2], pa.int8()).cast(pa.decimal128(5, 2)),
        "zip": pa.array(["01", "02"]),
        "day": pa.array([1, 2], pa.int32()).cast(pa.date32()),
        "said": pa.array(["2024-01-02", "2024-01-03"]),
        "list": pa.array([[1], [2]]),
        "void": pa.nulls(2),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    sheet = cn.read(tmp_path / "a.parquet", id="ID")
    expected = ["number", "number", "category", "date", "date", "other", "empty"]
    assert [*sheet.kinds.values()] == expected and sheet.ids.tolist() == ["1", "2"]
    assert sheet.columns(["yes"])["yes"].tolist()[0] == 1.0 and sheet.columns(["price"])["price"].tolist() == [1, 2]
    assert "..." in sheet.describe()


def test_other_signs_and_words(tmp_path: Path) -> None:
    text = "ID;price;note\n1;3,5;none\n2;-;x\n"
    sheet = cn.read(write(tmp_path, text), id="ID", delimiter=";", decimal=",", missing=["-", "none"])
    assert sheet.columns(["price"])["price"].tolist()[0] == 3.5 and sheet.columns(["note"])["note"].tolist() == [
        None,
        "x",
    ]


def test_latin_letters_and_quoted_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('ID,town\n1,"Zürich\nOerlikon"\n2,Genève\n'.encode("latin-1"))
    assert cn.read(tmp_path / "a.csv", id="ID", encoding="latin-1").columns(["town"])["town"][0] == "Zürich\nOerlikon"
    (tmp_path / "b.csv").write_bytes("ID,town\n1,Zürich\n".encode("utf-8-sig"))
    assert cn.read(tmp_path / "b.csv", id="ID").kinds == {"town": "category"}


@pytest.mark.parametrize("name", ["adult", "bank_marketing", "credit_default"])
def test_real_files_are_read_as_pandas_reads_them(tmp_path: Path, name: str) -> None:
    path = Path(os.environ.get("COLONNADE_DATA", "")) / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip("COLONNADE_DATA is not set")
    whole = pd.read_csv(path, na_values=["?"]).head(2000)
    if "ID" not in whole:
        whole.insert(0, "ID", range(len(whole)))
    whole.to_csv(tmp_path / "real.csv.gz", index=False)
    sheet = cn.read(tmp_path / "real.csv.gz", id="ID")
    for column, kind in sheet.kinds.items():
        assert (kind == "number") == (whole[column].dtype.kind in "if"), column
        found = sheet.columns([column])[column]
        if kind == "number":
            np.testing.assert_array_equal(found, whole[column].to_numpy(np.float32))
        else:
            assert [*found] == [None if pd.isna(word) else word for word in whole[column]]


# Ids


@given(st.text(max_size=12), st.sets(st.sampled_from(RULE)))
def test_normalising_again_changes_nothing(text: str, words: set[str]) -> None:
    rule = make_rule(sorted(words))
    once = normalised(text, rule)
    assert normalised(once, rule) == once
    assert rule or once == text


@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["7.0", " A.0", "\x1cX\x0b"]), min_size=1
    )
)
def test_arrow_and_python_normalise_alike(texts: list[str]) -> None:
    for rule in (RULE, ("trim",), ("casefold",), ("whole",), ("nfkc",), ()):
        assert normalise(pa.array(texts), rule).to_pylist() == [normalised(text, rule) for text in texts]
    found = hashes(pa.array(texts))
    assert all((found[j] == found[k]) >= (a == b) for j, a in enumerate(texts) for k, b in enumerate(texts))


@given(st.text(max_size=8))
def test_ids_that_look_alike_are_alike(text: str) -> None:
    ways = [text, f" {text}\t", unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)]
    assert len({normalised(way) for way in ways}) == 1


def test_rules_are_words() -> None:
    assert make_rule("trim+casefold") == make_rule(["casefold", "trim"]) == ("trim", "casefold")
    with pytest.raises(ConfigError, match="unknown word in normalise 'lower'"):
        make_rule("trim+lower")


def test_numbers_and_texts_are_the_same_ids(tmp_path: Path) -> None:
    pd.DataFrame({"ID": [7, 8]}).to_parquet(tmp_path / "whole.parquet")
    pd.DataFrame({"ID": [7.0, 8.0]}).to_parquet(tmp_path / "float.parquet")
    write(tmp_path, "ID\n7.0\n8\n", "text.csv")
    for name in ("whole.parquet", "float.parquet", "text.csv"):
        assert cn.read(tmp_path / name, id="ID").ids.tolist() == ["7", "8"]
    assert cn.read(tmp_path / "text.csv", id="ID", normalise=()).ids.tolist() == ["7.0", "8"]


def test_long_ids_do_not_blow_up_memory(tmp_path: Path) -> None:
    assert cn.read(write(tmp_path, f"ID\n{'x' * 500}\ny\n"), id="ID").ids.dtype == object


# What is refused


def refused(tmp_path: Path, text: str, **options: Any) -> str:
    with pytest.raises(ColonnadeError) as caught:
        cn.read(write(tmp_path, text), **{"id": "ID", **options})
    return str(caught.value)


def test_duplicates_are_counted_and_three_are_shown(tmp_path: Path) -> None:
    text = "ID\n" + "\n".join(["ann", "ANN ", "b", "b", "c", "c", "d", "d", "e"])
    said = refused(tmp_path, text)
    assert (
        "4 ids of 'bank' (column 'ID') occur more than once" in said and "'ann', 'b', 'c'; ids must be unique" in said
    )
    assert cn.read(write(tmp_path, "ID\nann\nANN\n"), id="ID", normalise=()).rows == 2


def test_bad_csv_files(tmp_path: Path) -> None:
    assert "its delimiter seems to be ';': give delimiter=';'" in refused(tmp_path, "ID;age\n1;2\n")
    assert "a tab ('\\t'): give delimiter='\\t'" in refused(tmp_path, "ID\tage\n1\t2\n")
    assert (
        "line 4 of" in (said := refused(tmp_path, "ID,age\n1,2\n\n3\n4,5\n"))
        and "has 1 fields, but the header has 2" in said
    )
    assert "has no id column 'ID'; did you mean 'Id'? Its columns: Id, age." in refused(tmp_path, "Id,age\n1,2\n")
    assert "has no label column 'y'; its columns: ID, age." in refused(tmp_path, "ID,age\n1,2\n", label="y")
    assert "has no listed column 'agge'; did you mean 'age'?" in refused(tmp_path, "ID,age\n1,2\n", numbers=["agge"])
    assert "is empty" in refused(tmp_path, "")
    assert "has no rows" in refused(tmp_path, "ID,age\n")
    assert "2 rows of 'bank' have no id in column 'ID'" in refused(tmp_path, "ID,age\n,2\n1,3\n  ,4\n")
    assert "has the column 'age' twice" in refused(tmp_path, "ID,age,age\n1,2,3\n")
    assert "came for two uses" in refused(tmp_path, "ID,age\n1,2\n", label="ID")
    assert "give a list of column names, such as ['age']" in refused(tmp_path, "ID,age\n1,2\n", numbers="age")
    assert "encoding='klingon' is unknown" in refused(tmp_path, "ID,age\n1,2\n", encoding="klingon")
    assert "decimal='' is not one character" in refused(tmp_path, "ID,age\n1,2\n", decimal="")


@pytest.mark.parametrize("text", ["ID,town\n1,Zürich\n", "ID,Größe\n1,2\n"])
def test_another_encoding(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(TableError, match=r"a\.csv is not text in utf-8; .* encoding='latin-1'"):
        cn.read(tmp_path / "a.csv", id="ID")
    (tmp_path / "a.csv").write_bytes(text.encode("utf-16"))
    with pytest.raises(TableError, match="encoding='utf-16'"):
        cn.read(tmp_path / "a.csv", id="ID")
    assert cn.read(tmp_path / "a.csv", id="ID", encoding="utf-16").rows == 1


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    cases = {"a.parquet": b"ID,age\n1,2\n", "b.parquet": b"", "c.csv.gz": b"ID,age\n1,2\n", "d.xlsx": b"PK"}
    said = []
    for name, raw in cases.items():
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(ColonnadeError) as caught:
            cn.read(tmp_path / name, id="ID")
        said.append(str(caught.value))
    parts = ["is not a Parquet file despite its name", "is empty", "cannot be read", "is of no kind that is read here"]
    assert all(part in one for part, one in zip(parts, said, strict=True)), said
    whole = io.BytesIO()
    frame().to_parquet(whole)
    (tmp_path / "torn.parquet").write_bytes(whole.getvalue()[:-9])
    with pytest.raises(TableError, match="is a damaged Parquet file"):
        cn.read(tmp_path / "torn.parquet", id="ID")
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(b"ID,age\n" + os.urandom(3000).hex().encode())[:-400])
    with pytest.raises(TableError, match=r"torn\.csv\.gz"):
        cn.read(tmp_path / "torn.csv.gz", id="ID")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for came in (tmp_path / "no.csv", str(tmp_path / "*.parquet")):
        with pytest.raises(TableError, match="there is no file"):
            cn.read(came, id="ID")
    with pytest.raises(ConfigError, match="no file came"):
        cn.read([], id="ID")
    path = write(tmp_path, BANK)
    with pytest.raises(ConfigError, match="came twice"):
        cn.read([path, path], id="ID")


def test_files_of_one_sheet_have_the_same_columns(tmp_path: Path) -> None:
    paths = [write(tmp_path, "ID,age\n1,2\n", "a.csv"), write(tmp_path, "ID,aged\n3,2\n", "b.csv")]
    with pytest.raises(TableError, match="differ in the columns 'age', 'aged'"):
        cn.read(paths, id="ID")


def test_ids_of_other_kinds(tmp_path: Path) -> None:
    pd.DataFrame({"ID": [7.5]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"holds 7\.5, which is no whole number"):
        cn.read(tmp_path / "a.parquet", id="ID")
    pd.DataFrame({"ID": pd.to_datetime(["2024-01-01"])}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match="ids are texts or whole numbers"):
        cn.read(tmp_path / "a.parquet", id="ID")


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, BANK)
    sheet: Sheet = cn.read(path, id="ID")
    sheet.check_unchanged()
    path.write_text(BANK.replace("31", "32"))
    with pytest.raises(TableError, match="the files of 'bank' have changed since they were read"):
        sheet.check_unchanged()


def test_rows_and_columns_that_are_not_there(tmp_path: Path) -> None:
    sheet = cn.read(write(tmp_path, BANK), id="ID")
    with pytest.raises(TableError, match="'bank' has no column 'wage'"):
        sheet.columns(["wage"])
    with pytest.raises(TableError, match="rows up to 3 are wanted of a file with 3"):
        sheet.columns(["age"], [3])


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> Any:
        raise ImportError(module)

    monkeypatch.setattr(arrow_module.importlib, "import_module", absent)
    with pytest.raises(ConfigError, match=r"pip install 'colonnade\[tables\]'"):
        cn.read(write(tmp_path, BANK), id="ID")


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("id,a\n1,2\n", {"delimiter": ";;"}, "delimiter=';;' is not one character"),
        ("id,a\n1,2\n", {"delimiter": ":"}, "when cut at ':'"),
        ("id,a\n1,2\n", {"numbers": ["a"], "categories": ["a"]}, "'a' of 'bank' came for two uses"),
        ("id,a\n1,2\n", {"label": ["a", "a"]}, "'a' of 'bank' came for two uses"),
        ("id,a", {}, "has no rows"),
        ('id,a\n1,"2\n3,4\n5,6\n', {}, "a quote in row 1 of .* is never closed"),
        ("id,a\n1," + "x" * 200_000 + "\n2\n", {}, "is no CSV that can be read"),
    ],
)
def test_odd_files_and_options_get_their_sentence(
    text: str, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ColonnadeError, match=said):
        cn.read(write(tmp_path, text), id="id", **options)


def test_quotes_that_are_closed_or_in_the_middle_are_fine(tmp_path: Path) -> None:
    assert cn.read(write(tmp_path, 'id,a\n1,x\n2,"two\nlines"\n'), id="id").rows == 2
    assert cn.read(write(tmp_path, 'id,a\n1,5" pipe\n2,x\n'), id="id").rows == 2


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress("".join(f"{k},{k * 7919 % 1000}\n" for k in range(20_000)).encode()))
    raw[30:60] = b"\xaa" * 30
    (tmp_path / "bank.csv.gz").write_bytes(raw)
    with pytest.raises(TableError, match=r"bank.csv.gz cannot be read"):
        cn.read(tmp_path / "bank.csv.gz", id="id")


def test_a_column_that_is_missing_in_the_first_file_has_the_kind_of_the_next(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "v": pa.nulls(1)}), tmp_path / "bank-1.parquet")
    pq.write_table(pa.table({"id": ["b", "c"], "v": [1.0, 2.0]}), tmp_path / "bank-2.parquet")
    sheet = cn.read(tmp_path / "bank-*.parquet", id="id")
    assert sheet.kinds == {"v": "number"}
    assert np.isnan(sheet.columns()["v"][0]) and sheet.columns()["v"][1:].tolist() == [1.0, 2.0]
