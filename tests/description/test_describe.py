"""``cn.describe`` against plain pandas on the same rows, and the rules that a party sets."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.description.column_bins import make_bins
from colonnade.description.describe_party import noise_multiplier
from colonnade.description.raw_columns import RawColumn
from colonnade.seal import accountant

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("nacl")

ROWS = 600


def information(x, y):
    """IV and WoE per bin of a column that is in bins, by pandas alone."""
    table = pd.crosstab(x, y)
    p, n = table[1] / (y == 1).sum(), table[0] / (y == 0).sum()
    woe = np.log(p / n)
    return float(((p - n) * woe).sum()), woe, table


def stability(before, after):
    p = before.value_counts(normalize=True)
    q = after.value_counts(normalize=True).reindex(p.index)
    return float(((q - p) * np.log(q / p)).sum())


def frame(rows=ROWS, seed=0):
    """Raw columns with missing values, rare categories and a column that tells nothing, and a label."""
    random = np.random.default_rng(seed)
    age = random.normal(45, 12, rows).round(1)
    job = random.choice(["smith", "cook", "clerk", "astronaut"], rows, p=[0.4, 0.35, 0.235, 0.015])
    risk = 0.05 * (age - 45) + (job == "cook") + random.normal(0, 1, rows)
    return pd.DataFrame(
        {
            "who": [f"p{k}" for k in range(rows)],
            "age": np.where(random.random(rows) < 0.15, np.nan, age),
            "few gaps": np.where(np.arange(rows) < 5, np.nan, random.normal(0, 1, rows).round(2)),
            "job": job,
            "town": np.where(random.random(rows) < 0.2, None, random.choice(["A", "B"], rows)),
            "default": (risk > 0.5).astype(int),
            "loss": (risk * 100).round(2),
        }
    )


def federation(tmp_path: Path, data, label="default", test=0.3, owner_columns=(), **how):
    data[["who", label, *owner_columns]].to_csv(tmp_path / "bank.csv", index=False)
    data.drop(columns=["default", "loss"]).to_csv(tmp_path / "shop.csv", index=False)
    bank, shop = cn.read(tmp_path / "bank.csv", id="who", label=label), cn.read(tmp_path / "shop.csv", id="who")
    train, held = cn.prepare([bank, shop], test=test, **how)
    by_id = data.set_index("who")
    return train, held, by_id.loc[list(train[0].ids)], by_id.loc[list(held[0].ids)] if held else None


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A federation of a bank and a shop from files, the same rows as pandas frames, and the description of them."""
    train, test, rows, later = federation(tmp_path_factory.mktemp("files"), frame())
    return train, rows, later, cn.describe(train, later=test, bins=5)


def test_the_figures_are_those_of_pandas(both):
    _, rows, later, found = both
    y = rows["default"]
    age = found.column("shop", "age")
    cuts = np.quantile(rows["age"].dropna(), [0.2, 0.4, 0.6, 0.8], method="lower")
    bins, after = (
        pd.Series(np.searchsorted(cuts, part["age"]), part.index).where(part["age"].notna(), 9)
        for part in (rows, later)
    )
    iv, woe, table = information(bins, y)
    assert [one.positives for one in age.bins] == table[1].tolist()
    assert [one.negatives for one in age.bins] == table[0].tolist() and age.bins[-1].title == "missing"
    assert [one.woe for one in age.bins] == pytest.approx(woe.tolist()) and age.iv == pytest.approx(iv)
    assert age.bins[0].title == f"<= {cuts[0]:.4g}"
    assert age.missing == rows["age"].isna().mean()
    assert age.correlation == pytest.approx(np.corrcoef(rows["age"].fillna(rows["age"].mean()), y)[0, 1], abs=2e-3)
    assert age.stability == pytest.approx(stability(bins, after), abs=1e-4)


def test_categories_are_those_of_pandas(both):
    _, rows, _, found = both
    job = found.column("shop", "job")
    few = rows["job"].value_counts()["astronaut"]
    assert 0 < few < 20, "astronauts are too few to be shown, and alone among the others"
    least = rows["job"].value_counts().drop("astronaut").idxmin()
    bins = rows["job"].replace({"astronaut": least})
    iv, woe, _ = information(bins, rows["default"])
    shown = {one.title.removesuffix(" or other"): one.woe for one in job.bins}
    assert shown == pytest.approx(woe.to_dict()) and job.iv == pytest.approx(iv)
    assert [one.title for one in job.bins if one.title.endswith("or other")] == [f"{least} or other"]
    assert job.correlation is None and job.kind == "category"
    town = found.column("shop", "town")
    assert {one.title for one in town.bins} == {"A", "B", "missing"}
    assert town.missing == rows["town"].isna().mean()


def test_too_few_missing_values_are_not_counted(both):
    _, rows, _, found = both
    gaps = found.column("shop", "few gaps")
    assert 0 < rows["few gaps"].isna().sum() < 20 and gaps.missing is None
    assert "missing" not in [one.title for one in gaps.bins] and sum(one.rows for one in gaps.bins) == len(rows)


@pytest.mark.parametrize("how", [{"numbers": "quantile"}, {"categories": "embed"}])
def test_the_preparation_does_not_matter(both, tmp_path, how):
    *_, found = both
    train, test, *_ = federation(tmp_path, frame(), **how)
    again = cn.describe(train, later=test, bins=5)
    for one, other in zip(found.columns, again.columns, strict=True):
        assert (one.column, one.missing, one.stability) == (other.column, other.missing, other.stability)
        assert [b[:4] for b in one.bins] == [b[:4] for b in other.bins]


def test_two_and_three_parties_and_an_owner_with_columns_agree(both):
    train, *_, found = both
    bank, shop = train
    half = replace(shop, name="other", ids=shop.ids)
    together = replace(bank, columns=shop.columns, column_names=shop.column_names, preparation=shop.preparation)
    for tables, name in ([[bank, half, shop], "other"], [[together, half], "bank"]):
        again = cn.describe(tables, bins=5, runtime="bytes")
        own = [column for column in again.columns if column.party == name]
        for one, other in zip(found.columns, own, strict=True):
            assert one.bins == other.bins and one.correlation == other.correlation
    assert again.opened[0].startswith("The owner sent 'other' each of")
    assert "Nothing left the owner" in cn.describe([together], bins=5).opened[0]


def test_values_have_means_and_correlations(tmp_path):
    train, _, rows, _ = federation(tmp_path, frame(), "loss", test=0, labels="values")
    found = cn.describe(train, bins=4)
    assert found.task == "values" and found.column("shop", "job").iv is None
    job = {one.title.removesuffix(" or other"): one.mean for one in found.column("shop", "job").bins}
    means = rows.groupby(rows["job"].replace({"astronaut": rows["job"].value_counts().index[2]}))["loss"].mean()
    assert job == pytest.approx(means.to_dict(), abs=0.03 * rows["loss"].std())
    expected = np.corrcoef(rows["age"].fillna(rows["age"].mean()), rows["loss"])[0, 1]
    assert found.column("shop", "age").correlation == pytest.approx(expected, abs=2e-3)


def test_more_classes_are_each_against_the_others():
    random = np.random.default_rng(0)
    labels, x = random.integers(0, 3, 300), random.integers(0, 4, 300)
    owner = cn.Table(range(300), labels=labels, name="bank", classes=("red", "green", "blue"))
    found = cn.describe([owner, cn.Table(range(300), x[:, None], name="shop", column_names=("x",))])
    assert [column.target for column in found.columns] == ["red", "green", "blue"]
    for k, column in enumerate(found.columns):
        iv, _, table = information(pd.Series(x), pd.Series((labels == k).astype(int)))
        assert column.iv == pytest.approx(iv) and [one.positives for one in column.bins] == table[1].tolist()
        assert column.correlation == pytest.approx(np.corrcoef(x, labels == k)[0, 1], abs=2e-3)


def test_several_labels_are_targets():
    random = np.random.default_rng(1)
    labels, x = random.integers(0, 2, (200, 3)), random.integers(0, 2, 200)
    owner = cn.Table(range(200), labels=labels, name="bank", classes=("a", "b", "c"))
    found = cn.describe([owner, cn.Table(range(200), x[:, None], name="shop")])
    for k, name in enumerate("abc"):
        assert [one.positives for one in found.column("shop", "column 1", name).bins] == [
            int(labels[x == v, k].sum()) for v in (0, 1)
        ]


def test_credit_default_is_as_pandas_says():
    if not (Path(os.environ.get("COLONNADE_DATA", "")) / "credit_default.csv.gz").exists():
        pytest.skip("COLONNADE_DATA names no folder with credit_default.csv.gz")
    train, test = cn.load("credit_default", rows=500)
    found = cn.describe(train, later=test, minimum=30)
    assert [table.name for table in train[1:]] == sorted(
        {c.party for c in found.columns}, key=["client", "delays", "amounts"].index
    )
    y = pd.Series(train[0].labels.numpy())
    for table, name in ((train[1], "AGE"), (train[2], "PAY_0"), (train[3], "BILL_AMT1")):
        x, column = (
            table.columns[:, table.column_names.index(name)].numpy().astype(float),
            found.column(table.name, name),
        )
        assert column.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=2e-3), name
        edges = np.cumsum([one.rows for one in column.bins])[:-1]
        bins = pd.Series(np.searchsorted(np.sort(x)[edges - 1], x))
        iv, _, table = information(bins, y)
        assert column.iv == pytest.approx(iv) and [one.positives for one in column.bins] == table[1].tolist()
    assert found.strongest[0].column == "PAY_0", "what every analyst of these data finds first"


# A party's rules


def test_no_bin_is_smaller_than_the_minimum(both):
    train, rows, *_ = both
    found = cn.describe(train, bins=20, minimum={"shop": 70})
    assert found.minimum == {"shop": 70}
    assert min(one.rows for column in found.columns for one in column.bins) >= 70
    assert max(len(column.bins) for column in found.columns) <= len(rows) // 70 + 1


def test_names_may_be_kept_back(both):
    train, *_, shown = both
    found = cn.describe(train, bins=5, names={"shop": "numbered"})
    titles = [one.title for column in found.columns for one in column.bins]
    assert all(title.startswith("bin ") for title in titles)
    assert [[one.positives for one in c.bins] for c in found.columns] == [
        [one.positives for one in c.bins] for c in shown.columns
    ]
    assert "without limits and texts" in found.opened[1]


def test_noise_has_the_deviation_that_epsilon_asks_for():
    random = np.random.default_rng(0)
    labels, columns = random.integers(0, 2, 400), random.integers(0, 5, (400, 12))
    tables = [cn.Table(range(400), labels=labels, name="bank"), cn.Table(range(400), columns, name="shop")]
    exact, noisy = cn.describe(tables), cn.describe(tables, epsilon=20.0)
    sigma = noisy.sigma["shop"]
    assert accountant.epsilon(24, sigma / 2, 1e-5) == pytest.approx(20.0, rel=1e-3)  # 12 columns: counts and products
    assert sigma == pytest.approx(2 * noise_multiplier(20.0, 1e-5, 24))
    pairs = [
        (one, other)
        for first, second in zip(exact.columns, noisy.columns, strict=True)
        for one, other in zip(first.bins, second.bins, strict=True)
    ]
    for name in ("rows", "positives"):
        gaps = np.array([getattr(other, name) - getattr(one, name) for one, other in pairs])
        assert 0.6 * sigma < gaps.std() < 1.4 * sigma, name
    again = cn.describe(tables, epsilon=20.0)
    assert [c.bins for c in again.columns] != [c.bins for c in noisy.columns], "other ciphertexts, other noise"
    assert "epsilon 20 at delta 1e-05" in noisy.opened[1] and all(c.missing is None for c in noisy.columns)


def test_categories_beyond_the_most_frequent_are_others():
    random = np.random.default_rng(0)
    words = np.array([f"w{k:03}" for k in range(120)])
    texts = np.concatenate([np.repeat(words, 3), random.choice(["other", "w000"], 40), [None] * 10])
    column = RawColumn("word", texts.astype(object))
    made = make_bins(column, bins=10, minimum=3)
    rows = np.bincount(made.codes(column))
    assert len(made.titles) == 101 and made.titles[-1] == "other" and rows.sum() == len(texts) and rows.min() >= 3
    assert made.titles[made.of_missing] == "missing" and rows[made.of_missing] == 10
    few = make_bins(column, bins=10, minimum=11)
    assert few.titles == ("w000", "other") and few.of_missing is None


def test_a_bin_of_missing_values_has_noise_too():
    tables = [cn.Table(range(200), labels=np.arange(200) % 2, name="bank")]
    job = np.stack([np.arange(200) % 4 == k for k in range(3)], axis=1).astype(float)  # a quarter has no job
    tables.append(cn.Table(range(200), job, name="shop", column_names=("job=a", "job=b", "job=c")))
    exact, noisy = cn.describe(tables).columns[0], cn.describe(tables, epsilon=50.0).columns[0]
    assert exact.missing == 0.25 and abs(noisy.missing - 0.25) < 0.1
    assert noisy.missing * 200 == next(one.rows for one in noisy.bins if one.title == "missing")


def test_an_absent_bin_of_later_rows_is_not_told_exactly():
    """Whether 0 or 19 later rows are in a bin makes no difference to what is told."""
    x = np.repeat([0, 1, 2], 100)
    tables = [
        cn.Table(range(300), labels=np.arange(300) % 2, name="bank"),
        cn.Table(range(300), x[:, None], name="shop"),
    ]
    told = []
    for few in (0, 19, 40):
        y = np.array([0] * 200 + [1] * 200 + [2] * few)
        later = [cn.Table(range(len(y)), y[:, None], name="shop")]
        told.append(cn.describe(tables, later=later).columns[0].stability)
    assert told[0] == told[1] != told[2]


# What is given back


def test_the_result_in_other_forms(both):
    *_, found = both
    columns = list(csv.DictReader(io.StringIO(found.to_csv())))
    bins = list(csv.DictReader(io.StringIO(found.to_csv("bins"))))
    assert [row["column"] for row in columns] == ["age", "few gaps", "job", "town"]
    assert float(columns[0]["iv"]) == found.columns[0].iv and len(bins) == sum(len(c.bins) for c in found.columns)
    plain = found.to_json()
    assert plain["columns"][0]["bins"][0]["positives"] == int(bins[0]["positives"])
    printed = str(found)
    assert printed.splitlines()[1].startswith(found.strongest[0].column) and "< 4.8 %" in printed
    assert "encrypted, and nobody else can open one" in printed
    assert found.bytes == found.ledger.total > 64 * found.rows
    assert {line.step for line in found.ledger.rows} == {"begin", "hear", "answer"}


# Bad input


def small(**changed):
    owner = cn.Table(range(60), labels=np.arange(60) % 2, name="bank")
    shop = cn.Table(range(60), np.arange(60)[:, None] % 3, name="shop", column_names=("x",))
    return [replace(owner, **changed.get("bank", {})), replace(shop, **changed.get("shop", {}))]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"minimum": 40}, "no column of 'shop' has two bins of at least 40 rows in its 60 rows"),
        ({"minimum": 0}, "minimum=0 is out of range"),
        ({"bins": 1}, "bins=1 is out of range; give a whole number from 2 to 100"),
        ({"minimum": {"shed": 3}}, "minimum= names 'shed', which is no party; there are bank, shop."),
        ({"names": "hidden"}, "unknown way to name bins 'hidden'; known: numbered, shown."),
        ({"epsilon": 0}, "epsilon=0 is out of range"),
        ({"epsilon": 1.0, "delta": 2}, "delta=2 is out of range"),
        ({"task": "guess"}, "unknown task 'guess'"),
        ({"runtime": "fused"}, "unknown runtime of a description 'fused'"),
        ({"later": [cn.Table([1], [[1.0]], name="shed")]}, "later= has no table of 'shop'"),
        ({"later": [cn.Table([1], [[1.0]], name="shop", column_names=("y",))]}, "has no column 'x' of the same kind"),
        ({"later": cn.Table([1], [[1.0]], name="shop")}, "later= is no federation"),
    ],
)
def test_bad_options_are_told_in_one_sentence(options, told):
    with pytest.raises(cn.ColonnadeError) as caught:
        cn.describe(small(), **options)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"bank": {"labels": np.zeros(60)}}, "hold one class only"),
        ({"bank": {"labels": np.arange(60) % 30}}, "are 30 classes, labels or values"),
        (
            {"bank": {"labels": np.arange(60) / 7, "ids": range(60)}, "shop": {"columns": np.ones((60, 2, 2))}},
            "pictures",
        ),
        ({"shop": {"known": np.arange(60) > 2}}, r"describe the common ones: cn\.common_rows"),
    ],
)
def test_bad_tables_are_told_in_one_sentence(changed, told):
    with pytest.raises(cn.ColonnadeError, match=told):
        cn.describe(small(**changed))


def test_no_column_of_that_name():
    found = cn.describe(small())
    with pytest.raises(cn.ColonnadeError, match="'shop' has no described column 'y'"):
        found.column("shop", "y")
    with pytest.raises(cn.ColonnadeError, match="table='rows' is unknown"):
        found.to_csv("rows")
