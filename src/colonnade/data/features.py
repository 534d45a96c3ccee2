"""Readers of the data sets that are arrays of features, not tables of named columns with categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colonnade.data.catalog import Dataset
from colonnade.data.raw import Raw, RawPart, hold_out
from colonnade.data.source_files import Arrays, missing, optional, read_arrays, reading
from colonnade.data.table_sets import standardised

_NUMBER = 8  # bytes at most


def read_breast_cancer(dataset: Dataset) -> Raw:
    """The 569 tumours that come with scikit-learn; ten measurements in three statistics."""
    bunch = optional("sklearn.datasets").load_breast_cancer()
    names = tuple(map(str, bunch.feature_names))
    groups = {kind: tuple(name for name in names if kind in name.split()) for kind in ("mean", "error", "worst")}
    rows = hold_out(bunch.target)
    X = standardised(bunch.data, rows[0])
    train, test = (RawPart(X[part], bunch.target[part], part) for part in rows)
    return _raw(train, test, tuple(map(str, bunch.target_names)), groups)


def read_nuswide(dataset: Dataset) -> Raw:
    """Image features, already standardised, and tags, which are 0 or 1; neither is changed."""
    arrays = _features(dataset, ("ids", "image", "tags", "y"))
    image, tags, y = arrays["image"], arrays["tags"], arrays["y"]
    X = np.concatenate([image, tags.astype(np.float32)], axis=1)
    train, test = (RawPart(X[rows], y[rows], arrays["ids"][rows]) for rows in hold_out(y))
    return _two_kinds(train, test, ("0", "1"), image=image.shape[1], tags=tags.shape[1])


def read_wikipedia(dataset: Dataset) -> Raw:
    """Articles: a histogram of their picture, and the topics of their text."""
    arrays = _features(dataset, ("image", "text", "y", "is_test", "classes"))
    image, text, is_test = arrays["image"], arrays["text"], arrays["is_test"].astype(bool)
    rows = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    X = standardised(np.concatenate([image, text], axis=1), rows[0])
    train, test = (RawPart(X[part], arrays["y"][part], part) for part in rows)
    return _two_kinds(train, test, tuple(map(str, arrays["classes"])), image=image.shape[1], text=text.shape[1])


def _features(dataset: Dataset, keys: tuple[str, ...]) -> Arrays:
    path = dataset.path
    if path is None:
        raise missing(dataset)
    arrays = read_arrays(path, keys, most=dataset.most_bytes(_NUMBER))
    with reading(path):
        rows, columns = len(arrays["y"]), sum(arrays[key].shape[1] for key in keys if arrays[key].ndim == 2)
        lengths = {len(arrays[key]) for key in keys if key != "classes"}
        if lengths != {rows} or (rows, columns) != (sum(dataset.rows), *dataset.shape):
            raise ValueError(f"it holds {rows} labels and {columns} columns")
    return arrays


def _two_kinds(train: RawPart, test: RawPart, classes: tuple[str, ...], **columns: int) -> Raw:
    groups = {kind: tuple(f"{kind} {k}" for k in range(count)) for kind, count in columns.items()}
    return replace(_raw(train, test, classes, groups), kinds_apart=True)


def _raw(train: RawPart, test: RawPart, classes: tuple[str, ...], groups: dict[str, tuple[str, ...]]) -> Raw:
    names = tuple(name for group in groups.values() for name in group)
    sources = {name: range(k, k + 1) for k, name in enumerate(names)}
    return Raw(train, test, classes, names=names, sources=sources, groups=groups)
