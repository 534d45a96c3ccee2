"""Preparation: the same as scikit-learn's on a pandas frame, exact when saved, and what it refuses."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

import colonnade as cn
from colonnade import models
from colonnade.errors import CheckpointError, ColonnadeError, ColonnadeWarning, ConfigError, ModelError, TableError
from colonnade.tables.prepare import Preparation, fit, labels_of
from colonnade.tables.prepare import preparation as preparation_module
from colonnade.tables.prepare.categories import Category
from colonnade.tables.prepare.numbers import fit_number
from colonnade.tables.prepare.row_parts import random_parts
from colonnade.tables.sheets import parquet_limits

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

ROWS = 600
TRAIN = np.random.default_rng(3).permutation(ROWS)[:450]


def frame(rows: int = ROWS, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    words = random.choice(["smith", "cook", "priest", "clerk", None], rows, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    words[:3] = "hangman"
    return pd.DataFrame(
        {
            "ID": [f"u{k}" for k in range(rows)],
            "age": np.where(random.random(rows) < 0.1, np.nan, random.normal(40, 10, rows)),
            "visits": random.integers(0, 5, rows),
            "wealth": np.exp(random.normal(10, 2, rows)),
            "job": words,
            "town": random.choice(["Ur", "Uruk"], rows),
            "y": random.choice(["no", "yes"], rows),
        }
    )


def sheet_of(folder: Path, table: Any, name: str = "bank", **options: Any) -> cn.Sheet:
    table.to_parquet(folder / f"{name}.parquet", row_group_size=max(1, len(table) // 5))
    return cn.read(folder / f"{name}.parquet", **{"id": "ID", **options})


def scikit_learns(table: Any, scale: Any, rarest: int | None = None) -> np.ndarray:
    numbers, categories = ["age", "visits", "wealth"], ["job", "town"]
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="infrequent_if_exist", min_frequency=rarest)
    both = ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(strategy="median"), scale), numbers), ("c", encoder, categories)]
    )
    texts = table.assign(job=table.job.fillna("zz missing"))  # sorts last, as ours comes last
    result: np.ndarray = both.fit(texts.iloc[TRAIN]).transform(texts)
    return result


# Against scikit-learn


@pytest.mark.parametrize("numbers", ["standard", "quantile"])
def test_it_is_what_scikit_learn_makes_of_a_frame(tmp_path: Path, numbers: str) -> None:
    whole = frame()
    scale = (
        StandardScaler()
        if numbers == "standard"
        else QuantileTransformer(n_quantiles=450, output_distribution="normal")
    )
    expected = scikit_learns(whole, scale)
    prepared = fit(sheet_of(tmp_path, whole, label="y"), TRAIN, numbers=numbers)
    found = prepared.apply(sheet_of(tmp_path, whole, label="y"))
    assert found.dtype == np.float32 and found.shape == (ROWS, prepared.width)
    gone = prepared.column_names.index("age missing")
    np.testing.assert_array_equal(found[:, gone], whole.age.isna())
    np.testing.assert_allclose(np.delete(found, gone, axis=1), expected, rtol=1e-5, atol=1e-5)
    assert prepared.column_names[-3:] == ("job=missing", "town=Ur", "town=Uruk")


def test_rare_categories_share_one_column(tmp_path: Path) -> None:
    whole = frame()
    expected = scikit_learns(whole, StandardScaler(), rarest=10)
    prepared = fit(sheet_of(tmp_path, whole, label="y"), TRAIN, rarest=10)
    assert "job=other" in prepared.column_names and "job=hangman" not in prepared.column_names
    found = prepared.apply(sheet_of(tmp_path, whole, label="y"))
    np.testing.assert_array_equal(
        found[:, 4:].sum(axis=0).astype(int), [*_job_sums(expected), *expected[:, -2:].sum(axis=0)]
    )


def _job_sums(expected: np.ndarray) -> list[float]:
    """Scikit-learn's sums of clerk, cook, priest, smith, missing, other: its infrequent column comes last as well."""
    return [*expected[:, 3:-2].sum(axis=0)]


def test_csv_and_parquet_are_prepared_alike(tmp_path: Path) -> None:
    whole = frame()
    whole.to_csv(tmp_path / "bank.csv.gz", index=False)
    one, other = cn.read(tmp_path / "bank.csv.gz", id="ID", label="y"), sheet_of(tmp_path, whole, label="y")
    np.testing.assert_array_equal(fit(one, TRAIN).apply(one, TRAIN), fit(other, TRAIN).apply(other, TRAIN))


def test_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = sheet_of(tmp_path, frame(), label="y")
    before = fit(sheet, TRAIN).apply(sheet, TRAIN)
    monkeypatch.setattr(parquet_limits, "ROWS", 11)
    monkeypatch.setattr(preparation_module, "_BYTES", 1)
    np.testing.assert_array_equal(fit(sheet, TRAIN).apply(sheet, TRAIN), before)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), min_size=3, max_size=40),
    st.sampled_from(["standard", "quantile"]),
)
def test_numbers_are_always_finite(values: list[float], scale: str) -> None:
    column = np.array(values)
    fitted = fit_number("x", column, scale)
    if fitted is None:
        assert len({*column[~np.isnan(column)]}) < 2
        return
    out = np.full((len(column) + 2, len(fitted.titles)), np.nan, np.float32)
    fitted.fill(np.append(column, [np.nan, 1e12]), out)
    assert np.isfinite(out).all()


# Saved and read again


@pytest.mark.parametrize(("numbers", "categories"), [("standard", "one-hot"), ("quantile", "embed")])
def test_the_state_is_exact(tmp_path: Path, numbers: str, categories: str) -> None:
    sheet = sheet_of(tmp_path, frame().assign(same=1), label="y")
    prepared = fit(sheet, TRAIN, numbers=numbers, categories=categories, rarest=5)
    facts, arrays = prepared.state()
    again = Preparation.from_state(json.loads(json.dumps(facts)), arrays)
    assert again.column_names == prepared.column_names and again.notes == prepared.notes and len(again.notes) == 1
    assert again.cardinalities == prepared.cardinalities
    np.testing.assert_array_equal(again.apply(sheet), prepared.apply(sheet))


texts = st.text(st.characters(codec="utf-8"), max_size=5)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(texts, st.lists(texts, unique=True, max_size=4), st.booleans(), st.booleans()), max_size=3))
def test_any_categories_come_back(columns: Sequence[tuple[str, list[str], bool, bool]]) -> None:
    categories = tuple(Category(name, tuple(kept), *flags) for name, kept, *flags in columns)
    facts, arrays = Preparation((), categories, "embed").state()
    assert Preparation.from_state(json.loads(json.dumps(facts)), arrays).categories == categories


def test_foreign_and_damaged_states_are_refused(tmp_path: Path) -> None:
    facts, arrays = fit(sheet_of(tmp_path, frame(), label="y"), TRAIN).state()
    with pytest.raises(
        CheckpointError, match="'colonnade-preparation-9', not 'colonnade-preparation-1'; it is foreign"
    ):
        Preparation.from_state({**facts, "format": "colonnade-preparation-9"}, arrays)
    broken = [
        ({**facts, "way": "x"}, arrays),
        ({k: v for k, v in facts.items() if k != "seen"}, arrays),
        (facts, {**arrays, "mean": arrays["mean"][:1]}),
        (facts, {**arrays, "median": arrays["median"] * np.nan}),
    ]
    for one in broken:
        with pytest.raises(CheckpointError, match="a saved preparation is damaged"):
            Preparation.from_state(*one)


# Other files at prediction


def test_unseen_values_say_nothing(tmp_path: Path) -> None:
    sheet = sheet_of(tmp_path, frame(), label="y")
    new = sheet_of(tmp_path, frame(4).assign(job=["smith", "pilot", None, "cook"]), "new", label="y")
    prepared = fit(sheet, TRAIN)
    job = [k for k, name in enumerate(prepared.column_names) if name.startswith("job=")]
    assert prepared.apply(new)[:, job].sum(axis=1).tolist() == [1, 0, 1, 1]
    coded = fit(sheet, TRAIN, categories="embed", rarest=10).apply(new)[:, -2]
    assert coded.tolist() == [4, 0, 5, 2]
    assert fit(sheet, TRAIN, rarest=10).apply(new)[1, 4:10].tolist() == [0, 0, 0, 0, 0, 1]


def test_other_columns_at_prediction(tmp_path: Path) -> None:
    prepared = fit(sheet_of(tmp_path, frame(), label="y"), TRAIN)
    less = sheet_of(tmp_path, frame().drop(columns=["age", "job"]), "less", label="y")
    with pytest.raises(TableError, match="'less' lacks the columns 'age', 'job' that its model was trained on"):
        prepared.apply(less)
    more = sheet_of(tmp_path, frame().assign(extra=1).drop(columns="y"), "more")
    assert prepared.check(more) == ("column 'extra' was not in the training files and is not used",)
    assert prepared.table(more, [3, 1]).ids.tolist() == ["u3", "u1"]
    text = sheet_of(tmp_path, frame().assign(visits="many"), "text", label="y")
    with pytest.raises(TableError, match="column 'visits' of 'text' holds 'many' in row 1 where a number is expected"):
        prepared.apply(text)


# Columns that are left out or refused


def test_dates_are_left_out_with_a_warning_and_constants_with_a_note(tmp_path: Path) -> None:
    whole = frame().assign(day=pd.Timestamp("2024-01-01"), same=1, one="x", void=None)
    sheet = sheet_of(tmp_path, whole, label="y")
    with pytest.warns(ColonnadeWarning, match="'day' of 'bank' hold dates"):
        prepared = fit(sheet, TRAIN)
    assert set(prepared.columns) == {"age", "visits", "wealth", "job", "town"}
    assert [note.split("'")[1] for note in prepared.notes] == ["same", "one", "void", "day"]
    with warnings.catch_warnings():
        fit(sheet_of(tmp_path, whole, label="y", leave_out=["day"]), TRAIN)


def test_category_explosions_are_refused(tmp_path: Path) -> None:
    mails = frame().assign(mail=[f"{k}@x.org" for k in range(ROWS)])
    with pytest.raises(TableError, match=r"column 'mail' of 'bank' has more than 256 .* leave_out=\['mail'\], list it"):
        fit(sheet_of(tmp_path, mails, label="y"), TRAIN)
    with pytest.raises(TableError, match="has 450 different texts in 450 rows, nearly one for each"):
        fit(sheet_of(tmp_path, mails, label="y"), TRAIN, most=1000)
    with pytest.raises(TableError, match=r"more than 3 different texts; .* or raise most= above 3"):
        fit(sheet_of(tmp_path, frame(), label="y"), TRAIN, most=3)


@pytest.mark.parametrize("options", [{"numbers": "log"}, {"categories": "hash"}, {"most": 0}, {"rarest": 1.5}])
def test_options_out_of_range(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        fit(sheet_of(tmp_path, frame(20), label="y"), **options)


# Labels


def labels(tmp_path: Path, values: Sequence[Any], kind: str = "classes", **options: Any) -> Any:
    table = pd.DataFrame({"ID": range(len(values)), "y": values})
    table.to_csv(tmp_path / "a.csv", index=False)
    return labels_of(cn.read(tmp_path / "a.csv", id="ID", label="y"), kind, **options)


def test_labels_are_classes_in_order(tmp_path: Path) -> None:
    found = labels(tmp_path, ["yes", "no", "yes"])
    assert found.values.tolist() == [1, 0, 1] and found.classes == ("no", "yes")
    assert labels(tmp_path, [10, 9, 10]).classes == ("9", "10")
    assert labels(tmp_path, ["1", "1.0", "0"]).values.tolist() == [1, 1, 0]
    assert labels(tmp_path, ["b", "a"], rows=[1]).values.tolist() == [0]
    assert labels(tmp_path, [0.5, 2], "values").values.tolist() == [0.5, 2.0]


def test_several_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ID,p,q\n1,0,1\n2,1,1\n")
    sheet = cn.read(tmp_path / "a.csv", id="ID", label=["p", "q"])
    found = labels_of(sheet, "several")
    assert (
        found.values.tolist() == [[0, 1], [1, 1]] and found.values.dtype == np.float32 and found.classes == ("p", "q")
    )
    with pytest.raises(ConfigError, match="2 label columns came for labels='classes'"):
        labels_of(sheet)


def test_labels_that_do_not_parse(tmp_path: Path) -> None:
    cases: list[tuple[Sequence[Any], dict[str, Any], str]] = [
        ([1.5, 2], {}, "holds 1.5, which is no class; .* labels='values'"),
        (["a", None, "b"], {}, "1 rows of 'a' have no label in column 'y', the first is row 2"),
        (["1", "x"], {"kind": "values"}, "column 'y' of 'a' holds 'x' in row 2 where a number is expected"),
        ([0, 2], {"kind": "several"}, "holds 2 in row 2; with labels='several' every label is 0 or 1"),
        ([f"t{k}" for k in range(1001)], {}, "has 1001 different values"),
        ([1, 2], {"kind": "many"}, "unknown kind of labels 'many'"),
    ]
    for values, options, said in cases:
        with pytest.raises(ColonnadeError, match=said):
            labels(tmp_path, values, **options)


# Federations


def two_sheets(folder: Path) -> tuple[list[cn.Sheet], dict[str, np.ndarray]]:
    whole = frame()
    bank = sheet_of(folder, whole[["ID", "age", "job", "y"]][:500], label="y")
    other = whole[["ID", "visits", "wealth", "town"]][100:].iloc[::-1].assign(ID=lambda t: t.ID.str.upper())
    card = sheet_of(folder, other, "card")
    return [card, bank], {"bank": np.arange(100, 500), "card": np.arange(400)[::-1] + 100}


def test_sheets_become_two_federations(tmp_path: Path) -> None:
    sheets, rows = two_sheets(tmp_path)
    train, test = cn.prepare(sheets, rows, test=0.25, seed=1)
    assert [(table.name, table.rows) for table in (*train, *test)] == [
        ("bank", 300),
        ("card", 300),
        ("bank", 100),
        ("card", 100),
    ]
    assert train[0].classes == ("no", "yes") and train[1].labels is None
    parts = random_parts(400, 0.25, 1)
    assert train[0].ids.tolist() == [f"u{k + 100}" for k in parts.train]
    expected = fit(sheets[1], rows["bank"][parts.train]).apply(sheets[1], rows["bank"][parts.test])
    np.testing.assert_array_equal(test[0].columns.numpy(), expected)
    assert train[1].take([0, 1]).preparation is train[1].preparation is test[1].preparation
    assert cn.prepare(sheets, rows, test=0)[1] == []


def test_an_owner_may_have_labels_only(tmp_path: Path) -> None:
    whole = frame()
    sheets = [sheet_of(tmp_path, whole[["ID", "y"]], "owner", label="y"), sheet_of(tmp_path, whole.drop(columns="y"))]
    train, test = cn.prepare(sheets)
    assert train[0].columns is None and train[0].labels is not None and test[1].rows == 120
    assert cn.train(train, "fdml", rounds=1).evaluate(test)["loss"] > 0


def test_what_cannot_be_prepared(tmp_path: Path) -> None:
    sheets, rows = two_sheets(tmp_path)
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (sheets[:1], None, {}, "one sheet must have the label, but none of 1 have"),
        ([], None, {}, "no sheets came"),
        ([sheets[1], sheets[1]], None, {}, "one sheet must have the label, but 'bank', 'bank' of 2"),
        ([*sheets, sheets[0]], None, {}, "two sheets have the same name"),
        (sheets, {"bank": [0]}, {}, "the alignment has no rows of 'card'"),
        (sheets, {"bank": [0], "card": [1, 2]}, {}, "different numbers of rows"),
        (sheets, {"bank": [], "card": []}, {}, "no row in common"),
        (sheets, {"bank": [0], "card": [0]}, {"test": 0}, "have other ids; align again"),
        (sheets, rows, {"test": 1.0}, "test=1.0 is out of range"),
    ]
    for came, alignment, options, said in cases:
        with pytest.raises(ColonnadeError, match=said):
            cn.prepare(came, alignment, **options)
    frame().to_parquet(tmp_path / "card.parquet")
    with pytest.raises(TableError, match="the files of 'card' have changed since they were read"):
        cn.prepare(sheets, rows)


# Learnt embeddings


def test_embeddings_are_learnt_saved_and_resumed(tmp_path: Path) -> None:
    sheets, rows = two_sheets(tmp_path)
    train, test = cn.prepare(sheets, rows, categories="embed")
    assert [table.shape for table in train] == [(3,), (3,)] and train[1].cardinalities == (3,)
    run = cn.train(train, "splitnn", rounds=3, batch=64)
    assert [entry["kind"] for entry in run.description["model"]] == ["table-net", "table-net"]
    run.save(tmp_path / "run")
    again = cn.resume(tmp_path / "run", train, rounds=5)
    straight = cn.train(train, "splitnn", rounds=5, batch=64)
    torch.testing.assert_close(again.predict(test), straight.predict(test))


def test_like_parties_with_embeddings_are_fused() -> None:
    random = np.random.default_rng(0)
    columns = [np.c_[random.normal(size=(40, 2)), random.integers(0, 4, 40)] for _ in range(3)]
    ids, y = np.arange(40), random.integers(0, 2, 40)
    tables = [cn.Table(ids, labels=y, name="owner"), *(cn.Table(ids, c, name=f"p{k}") for k, c in enumerate(columns))]
    model = cn.TableNet(hidden=(8,), cardinalities=(4,), dims=(3,))
    runs = [cn.train(tables, "fdml", rounds=4, batch=20, model=model, runtime=way) for way in ("loop", "fused")]
    torch.testing.assert_close(*[run.predict(tables) for run in runs], rtol=1e-3, atol=1e-4)


def test_the_builder_round_trips_and_refuses_what_does_not_fit() -> None:
    net = cn.TableNet(hidden=(8,), cardinalities=(4, 5), dims=(2, 2))
    entry = json.loads(json.dumps(models.describe(net)))
    assert models.make_model(entry.pop("kind"), **entry) == net
    assert float(net((4,), 3)[0].tables[0].weight[0].detach().abs().sum()) == 0
    with pytest.raises(ModelError, match=r"rows of shape \(1,\) cannot have 2 columns of codes"):
        net((1,), 3)
    with pytest.raises(ModelError, match="dims has 1 widths for 2 columns"):
        cn.TableNet(cardinalities=(4, 5), dims=(2,))
    assert repr(cn.TableNet()((3,), 2)) == repr(cn.MLP()((3,), 2))


def test_the_largest_number_there_is_counts_as_missing(tmp_path: Path) -> None:
    table = pd.DataFrame({"ID": list("abcd"), "v": [1.0, 2.0, 4.0, -np.finfo(np.float64).max]})
    sheet = sheet_of(tmp_path, table)
    preparation = fit(sheet)
    assert preparation.column_names == ("v", "v missing")
    assert preparation.apply(sheet)[:, 1].tolist() == [0, 0, 0, 1] and np.isfinite(preparation.apply(sheet)).all()
    assert Preparation.from_state(*preparation.state()).column_names == ("v", "v missing")


def test_coded_categories_are_the_same_when_pandas_made_floats_of_them(tmp_path: Path) -> None:
    codes = pd.DataFrame({"ID": list("abcd"), "code": [1, 2, 1, 2]})
    codes.to_csv(tmp_path / "old.csv", index=False)
    preparation = fit(cn.read(tmp_path / "old.csv", id="ID", categories=["code"]))
    pd.DataFrame({"ID": list("xyz"), "code": [2, None, 1]}).to_csv(tmp_path / "new.csv", index=False)
    assert "2.0" in (tmp_path / "new.csv").read_text()
    found = preparation.apply(cn.read(tmp_path / "new.csv", id="ID", categories=["code"]))
    assert preparation.column_names == ("code=1", "code=2") and found.tolist() == [[0, 1], [0, 0], [1, 0]]
