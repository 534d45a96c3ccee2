"""Named data sets: what comes, in which parts, cut how; and what is said when one cannot be had.

Tests of files need COLONNADE_DATA to name a folder that has them, and are skipped without.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.table import Scale, Table, check_federation
from colonnade.data import datasets, load, reload
from colonnade.data.catalog import VARIABLE
from colonnade.errors import ConfigError, DataError

linear_model = pytest.importorskip("sklearn.linear_model")
metrics = pytest.importorskip("sklearn.metrics")
sklearn_datasets = pytest.importorskip("sklearn.datasets")
pd = pytest.importorskip("pandas")
Image = pytest.importorskip("PIL.Image")

QUICK = ["digits", "breast_cancer", "nuswide_mini", "wikipedia", "adult", "bank_marketing"]
QUICK += ["bank_marketing_additional", "credit_default", "mnist"]
SLOW = ["fashion_mnist", "cifar10", "tiny_imagenet100", "modelnet40_views", "criteo8k"]
EVERY = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def needed(name: str) -> Any:
    dataset = datasets()[name]
    if not dataset.available:
        pytest.skip(f"{VARIABLE} names no folder with {dataset.file}")
    return dataset


def inputs(tables: list[Table]) -> np.ndarray:
    """All parties' scaled columns side by side."""
    parties = [t for t in tables if t.columns is not None]
    joined: np.ndarray = torch.cat([t.draw(torch.arange(t.rows)).flatten(1) for t in parties], dim=1).numpy()
    return joined


def shapes(tables: list[Table]) -> dict[str, tuple[int, ...]]:
    return {t.name: t.shape for t in tables[1:]}


# Every data set


def test_every_data_set_is_tested_and_described() -> None:
    assert sorted(datasets()) == sorted(QUICK + SLOW)
    for name, dataset in datasets().items():
        assert dataset.name == name
        assert dataset.licence and dataset.source and dataset.split and dataset.where
        assert bool(dataset.file) == bool(dataset.layout)


@pytest.mark.parametrize("name", EVERY)
def test_both_parts_are_as_described(name: str) -> None:
    dataset = needed(name)
    train, test = load(name)
    for part, rows in zip((train, test), dataset.rows, strict=True):
        check_federation(part)
        assert part[0].rows == rows
        assert torch.unique(part[0].labels).tolist() == list(range(dataset.classes))
        assert len(part[0].classes) == dataset.classes
        assert all(torch.isfinite(t.draw(torch.arange(5))).all() for t in part[1:])
    assert shapes(train) == shapes(test)
    assert dataset.parties in (None, len(train) - 1)


@pytest.mark.parametrize("name", EVERY)
def test_parties_share_one_array(name: str) -> None:
    needed(name)
    train, _ = load(name)
    assert len({t.columns.untyped_storage().data_ptr() for t in train[1:]}) == 1


# Parts, subsets, origin


def test_the_parts_do_not_depend_on_the_seed() -> None:
    (one, one_test), (two, two_test) = load("digits"), load("digits", seed=5)
    assert np.array_equal(one[0].ids, two[0].ids)
    assert np.array_equal(one_test[0].ids, two_test[0].ids)
    assert not set(one[0].ids) & set(one_test[0].ids)


def test_the_held_out_fifth_is_stratified() -> None:
    train, test = load("breast_cancer")
    shares = [t[0].labels.double().mean().item() for t in (train, test)]
    assert abs(shares[0] - shares[1]) < 0.01


def test_a_subset_of_rows_follows_the_seed_and_leaves_the_test_rows() -> None:
    (one, test), (same, _), (other, _) = (load("digits", rows=100, seed=seed) for seed in (1, 1, 2))
    assert one[0].rows == 100
    assert test[0].rows == 360
    assert np.array_equal(one[0].ids, same[0].ids)
    assert not np.array_equal(one[0].ids, other[0].ids)


def test_a_subset_keeps_rows_and_labels_together() -> None:
    whole, _ = load("digits")
    some, _ = load("digits", rows=50)
    where = {row: k for k, row in enumerate(whole[0].ids)}
    rows = torch.tensor([where[row] for row in some[0].ids])
    assert torch.equal(some[0].labels, whole[0].labels[rows])
    assert torch.equal(some[3].columns, whole[3].columns[rows])


def test_an_encoding_does_not_change_with_the_rows_asked_for() -> None:
    needed("adult")
    (_, test), (few, few_test) = load("adult"), load("adult", rows=20)
    assert few[1].shape == test[1].shape
    assert torch.equal(test[1].columns, few_test[1].columns)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits", {"parties": 4, "owner": "first", "rows": 30, "seed": 3}),
        ("digits", {"parties": (2, 2), "by": "patches"}),
        ("digits", {"parties": 10, "by": "overlap", "width": 14}),
        ("breast_cancer", {"parties": {"a": range(3), "b": np.arange(3, 5)}}),
        ("breast_cancer", {}),
    ],
)
def test_the_origin_survives_json_and_loads_the_same_again(name: str, options: dict[str, Any]) -> None:
    for part, tables in zip(("train", "test"), load(name, **options), strict=True):
        origin = json.loads(json.dumps(tables[0].origin))
        assert (origin["load"], origin["part"]) == (name, part)
        again = reload(origin)
        assert [t.name for t in again] == [t.name for t in tables]
        assert np.array_equal(again[0].ids, tables[0].ids)
        assert np.array_equal(inputs(again), inputs(tables))


# Images


def test_digits_are_uint8_in_sixteenths() -> None:
    train, _ = load("digits")
    assert (train[1].columns.dtype, train[1].scale) == (torch.uint8, Scale(16.0))
    assert inputs(train).max() == 1.0


@pytest.mark.parametrize("name", ["mnist", pytest.param("cifar10", marks=pytest.mark.slow)])
def test_scaled_pixels_have_mean_zero(name: str) -> None:
    needed(name)
    train, _ = load(name, rows=5000)
    assert abs(inputs(train).mean()) < 0.02


def test_vims_hundred_parties_on_mnist() -> None:
    needed("mnist")
    train, _ = load("mnist", parties=100, by="overlap", width=14, rows=100)
    assert shapes(train) == {f"party {k}": (14,) for k in range(1, 101)}


@pytest.mark.slow
def test_cifar_is_right_side_up_and_channels_first() -> None:
    needed("cifar10")
    train, _ = load("cifar10", parties=1, by="rows")
    pixels = train[1].columns
    assert pixels.is_contiguous()
    assert pixels[0, :, 0, 0].tolist() == [59, 62, 63]  # the well-known first pixels of the frog, row by row
    assert pixels[0, :, 0, 1].tolist() == [43, 46, 45]
    assert train[0].classes[train[0].labels[0]] == "frog"


@pytest.mark.slow
def test_cifar_windows_take_the_channels_apart() -> None:
    needed("cifar10")
    train, _ = load("cifar10", parties=3, by="overlap", width=1024, rows=50)
    assert train[1].draw(torch.arange(2)).shape == (2, 1024)


@pytest.mark.slow
def test_decoded_images_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    needed("tiny_imagenet100")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, _ = load("tiny_imagenet100", rows=100)
    assert "decoding tiny_imagenet100" in capsys.readouterr().err
    second, _ = load("tiny_imagenet100", rows=100)
    assert capsys.readouterr().err == ""
    assert np.array_equal(inputs(first), inputs(second))
    (kept,) = (tmp_path / "colonnade").iterdir()
    kept.write_bytes(kept.read_bytes()[:1000])
    third, _ = load("tiny_imagenet100", rows=100)
    assert "decoding" in capsys.readouterr().err  # a torn cache is made anew, not trusted
    assert np.array_equal(inputs(first), inputs(third))


@pytest.mark.slow
def test_modelnet_is_shuffled_and_keeps_its_names() -> None:
    needed("modelnet40_views")
    train, _ = load("modelnet40_views")
    owner = train[0]
    assert len(set(owner.labels[:50].tolist())) > 15
    assert all(name.startswith(owner.classes[label]) for name, label in zip(owner.ids, owner.labels, strict=True))


# Tables


@pytest.mark.parametrize(
    ("name", "parties"),
    [
        ("breast_cancer", ["mean", "error", "worst"]),
        ("adult", ["demography", "work"]),
        ("credit_default", ["client", "delays", "amounts"]),
        ("bank_marketing", ["client", "contact"]),
        ("bank_marketing_additional", ["client", "contact", "economy"]),
        pytest.param("criteo8k", ["counts", "categories"], marks=pytest.mark.slow),
        ("wikipedia", ["image", "text"]),
        ("nuswide_mini", ["image", "tags"]),
    ],
)
def test_the_natural_parties(name: str, parties: list[str]) -> None:
    needed(name)
    train, _ = load(name)
    assert [t.name for t in train] == ["owner", *parties]
    assert all(len(t.column_names) == t.shape[0] for t in train[1:])


def test_no_source_column_is_spread_over_two_parties() -> None:
    needed("adult")
    train, _ = load("adult", parties=14)
    sources = [{name.partition("=")[0] for name in t.column_names} for t in train[1:]]
    assert [len(source) for source in sources] == [1] * 14
    assert len(set.union(*sources)) == 14


def test_source_columns_by_name_and_number() -> None:
    needed("adult")
    train, _ = load("adult", {"person": ["age", "sex"], "money": "capital_gain"}, owner="first")
    assert [t.name for t in train] == ["person", "money"]
    assert train[0].column_names == ("age", "sex=Female", "sex=Male")
    assert load("adult", [[0], [1]])[0][2].column_names == ("sex=Female", "sex=Male")


def test_windows_of_source_columns() -> None:
    train, _ = load("breast_cancer", parties=6, by="overlap", width=10)
    assert [t.shape for t in train[1:]] == [(10,)] * 6


def test_a_party_may_be_called_owner_if_it_is_the_owner() -> None:
    train, _ = load("breast_cancer", {"owner": [0], "other": [1]}, owner="first")
    assert [t.name for t in train] == ["owner", "other"]


def test_numbers_are_standardised_on_the_training_rows() -> None:
    needed("credit_default")
    train, _ = load("credit_default")
    amounts = train[3].columns
    torch.testing.assert_close(amounts.mean(0), torch.zeros(12), atol=1e-4, rtol=0)
    torch.testing.assert_close(amounts.std(0), torch.ones(12), atol=1e-3, rtol=0)


def test_credit_clients_keep_their_ids() -> None:
    needed("credit_default")
    train, test = load("credit_default")
    assert sorted([*train[0].ids, *test[0].ids]) == list(range(1, 30_001))


def test_rare_categories_share_one_column() -> None:
    needed("adult")
    train, _ = load("adult")
    countries = [name for name in train[1].column_names if name.startswith("native_country=")]
    assert len(countries) == 31
    assert {"native_country=?", "native_country=other"} <= set(countries)
    rows = train[1].columns[:, [train[1].column_names.index(name) for name in countries]]
    assert torch.equal(rows.sum(1), torch.ones(train[1].rows))


def test_kinds_of_columns_stay_apart() -> None:
    needed("wikipedia")
    train, _ = load("wikipedia", parties=4)
    assert list(shapes(train).values()) == [(64,), (64,), (5,), (5,)]
    with pytest.raises(ConfigError, match=r"2 kinds of columns \(image, text\), which 3 parties cannot share"):
        load("wikipedia", parties=3)


# Quality: a logistic regression reaches the reference results of the central table


@pytest.mark.parametrize(
    ("name", "metric", "reference"),
    [
        ("digits", "accuracy", 0.955),
        ("breast_cancer", "accuracy", 0.94),
        ("wikipedia", "accuracy", 0.645),
        ("adult", "accuracy", 0.851),
        ("adult", "auc", 0.903),
        ("credit_default", "auc", 0.71),
        ("bank_marketing", "auc", 0.905),
        ("bank_marketing_additional", "auc", 0.93),
        pytest.param("criteo8k", "auc", 0.73, marks=pytest.mark.slow),
    ],
)
def test_a_central_model_reaches_the_reference(name: str, metric: str, reference: float) -> None:
    needed(name)
    train, test = load(name)
    model = linear_model.LogisticRegression(max_iter=200, C=1.0 if name == "digits" else 0.1).fit(
        inputs(train), train[0].labels.numpy()
    )
    chances, y = model.predict_proba(inputs(test)), test[0].labels.numpy()
    score = metrics.roc_auc_score(y, chances[:, 1]) if metric == "auc" else (chances.argmax(1) == y).mean()
    assert reference <= score <= reference + 0.04


# What cannot be had


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "digit"}, "unknown data set 'digit'; did you mean 'digits'?"),
        ({"name": "digits", "rows": 0}, "rows is 0, but there are 1437 training rows"),
        ({"name": "digits", "rows": 1438}, "give 1 to 1437, or None."),
        ({"name": "digits", "parties": 9}, "9 parties cannot share 8 image rows"),
        ({"name": "digits", "owner": "last"}, "unknown owner 'last'"),
        ({"name": "breast_cancer", "by": "rows"}, "breast_cancer is a table"),
        ({"name": "breast_cancer", "parties": 31}, "31 parties cannot share 30 columns"),
        ({"name": "breast_cancer", "parties": [["mean radios"]]}, "did you mean 'mean radius'?"),
    ],
)
def test_a_mistake_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**options)
    assert message in str(caught.value)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder and an empty cache."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit"))
    return tmp_path


def test_without_file_and_openml_it_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=f"criteo8k is not here: COLONNADE_DATA is {folder}, without that file"):
        load("criteo8k")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(DataError, match=r"COLONNADE_DATA is not set, .* to a folder with criteo8k\.csv\.gz"):
        load("criteo8k")
    assert not datasets()["criteo8k"].available
    assert datasets()["criteo8k"].where.startswith("nowhere")


@pytest.mark.parametrize("name", ["mnist", "adult"])
def test_without_a_network_it_says_so_soon(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # a real call that nothing answers
    start = time.perf_counter()
    with pytest.raises(
        DataError, match=f"{name} is not here: .* OpenML's .* did not come .*; set COLONNADE_DATA"
    ) as caught:
        load(name)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 10


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def packed(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **dict.fromkeys(BOMB_KEYS, LABELS) | arrays)
    return stream.getvalue()


def picture(side: int) -> np.ndarray:
    stream = io.BytesIO()
    Image.new("1", (side, side)).save(stream, "png")
    return np.frombuffer(stream.getvalue(), np.uint8)


BOMB_KEYS = ("x_train", "y_train", "x_test", "y_test", "image", "text", "y", "is_test", "classes", "test_webp")
LABELS = np.arange(20, dtype=np.uint8) % 10
PIXELS = np.zeros((20, 28, 28), dtype=np.uint8)
DAMAGED = [
    ("mnist.npz", b"", "mnist"),
    ("mnist.npz", b"not a zip file at all", "mnist"),
    ("mnist.npz", npz(x_train=PIXELS, y_train=LABELS, x_test=PIXELS, y_test=LABELS)[:-200], "mnist"),
    ("mnist.npz", npz(x_train=PIXELS), "no array y_train, x_test, y_test"),
    ("mnist.npz", npz(x_train=np.array([{}]), y_train=LABELS, x_test=PIXELS, y_test=LABELS), "allow_pickle=False"),
    ("mnist.npz", npz(x_train=PIXELS[:, 1:], y_train=LABELS, x_test=PIXELS, y_test=LABELS), r"shape \(20, 27, 28\)"),
    ("mnist.npz", npz(x_train=PIXELS, y_train=LABELS + 1, x_test=PIXELS, y_test=LABELS), "not class numbers"),
    (
        "wikipedia.npz",
        npz(image=PIXELS[:, 0], text=PIXELS[:, 0], y=LABELS, is_test=LABELS, classes=LABELS),
        "20 labels",
    ),
    ("cifar10.npz", npz(train_webp_0=LABELS, test_webp=LABELS, y_train=LABELS, y_test=LABELS), "cifar10"),
    ("adult.csv.gz", b"not gzip", "adult"),
    ("adult.csv.gz", gzip.compress(b"age,income,split\n1,2,train\n"), "it has no column sex, race, native_country"),
    ("adult.csv.gz", gzip.compress(b""), "adult"),
    ("mnist.npz", packed(x_train=np.zeros((10**5, 28, 28), np.uint8), y_train=LABELS), "74 MB or more, where 70 MB"),
    ("wikipedia.npz", packed(image=np.zeros(4 << 20)), "it unpacks into 32 MB or more, where 4 MB is the most"),
    ("adult.csv.gz", gzip.compress(b"a" * (48 << 20)), "unpacks into 33 MB or more, where 33 MB is the most"),
    ("adult.csv.gz", gzip.compress(b"age\n" + b"7\n" * (24 << 20)), "unpacks into 33 MB or more"),
    ("cifar10.npz", packed(train_webp_0=picture(8_000), test_webp=picture(1), y_train=LABELS), "8,000 x 8,000 pixels"),
]


@pytest.mark.parametrize(("file", "content", "reason"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_named_in_one_sentence(file: str, content: bytes, reason: str, folder: Path) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=reason) as caught:
        load(file.partition(".")[0])
    assert str(folder / file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "module"), [("adult", "pandas"), ("cifar10", "PIL.Image"), ("digits", "sklearn.datasets")]
)
def test_a_missing_package_is_named(name: str, module: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "adult.csv.gz").write_bytes(b"")
    (folder / "cifar10.npz").write_bytes(npz(train_webp_0=LABELS, test_webp=LABELS, y_train=LABELS, y_test=LABELS))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=r"not installed; pip install 'colonnade\[data\]'"):
        load(name)


# OpenML's copies: the shapes that scikit-learn returns for them, made up here, since tests have no network


def answer(monkeypatch: pytest.MonkeyPatch, data: Any, target: Any) -> None:
    bunch = type("Bunch", (), {"data": data, "target": target})
    monkeypatch.setattr(sklearn_datasets, "fetch_openml", lambda *_, **__: bunch)


def test_openmls_images(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    target = np.arange(70_000) % 10
    data = np.zeros((70_000, 784), dtype=np.int64)
    data[60_000:] = 255
    answer(monkeypatch, data, target.astype(str).astype(object))
    train, test = load("mnist")
    assert "fetching mnist from OpenML" in capsys.readouterr().err
    assert (train[0].rows, test[0].rows, train[1].shape, train[1].columns.dtype) == (
        60_000,
        10_000,
        (2, 28),
        torch.uint8,
    )
    assert (int(train[1].columns.max()), int(test[1].columns.min())) == (0, 255)
    load("mnist")
    assert capsys.readouterr().err == ""  # the second time from the cache


def test_openmls_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 45_211
    frame = pd.DataFrame({f"V{k}": np.arange(rows) % (k + 2) for k in range(1, 17)})
    for k in (2, 3, 4, 5, 7, 8, 9, 11, 16):
        frame[f"V{k}"] = frame[f"V{k}"].astype(str).astype("category")
    answer(monkeypatch, frame, pd.Series((np.arange(rows) % 7 == 0) + 1).astype(str).astype("category"))
    train, test = load("bank_marketing")
    assert (train[0].rows, test[0].rows) == datasets()["bank_marketing"].rows
    assert [t.name for t in train] == ["owner", "client", "contact"]
    assert train[0].classes == ("no", "yes")
    assert abs(train[0].labels.double().mean().item() - 1 / 7) < 0.01


def test_openmls_copy_of_another_shape(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, np.zeros((10, 784)), np.zeros(10))
    with pytest.raises(DataError, match=r"OpenML's copy has another shape, \(10, 784\)"):
        load("mnist")
    answer(monkeypatch, pd.DataFrame(np.zeros((10, 3))), np.zeros(10))
    with pytest.raises(DataError, match=r"OpenML's copy has another shape, \(10, 3\)"):
        load("adult")
