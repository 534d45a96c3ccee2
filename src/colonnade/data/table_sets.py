"""Readers of the table data sets: numbers are standardised, categories are one-hot, all as float32.

Medians, means and categories come from all training rows and no test row. The encoding therefore does not change when
only some of the rows are loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.data.catalog import Dataset
from colonnade.data.layouts import LAYOUTS, Layout
from colonnade.data.raw import Raw, RawPart, hold_out
from colonnade.data.source_files import fetch, missing, optional, read_frame, reading

_MOST_CATEGORIES = 30  # of one column; rarer ones share the category "other"
_CELL = 32  # bytes of text, which is several times a cell's mean
_ABSENT = "?"


def read_table(dataset: Dataset) -> Raw:
    """A table of numbers and categories from its file, else from OpenML."""
    layout = LAYOUTS[dataset.name]
    path = dataset.path
    if path is None:
        return _encoded(_from_openml(dataset, layout), layout, own_parts=False)
    extra = [column for column in (layout.target, layout.ids, layout.part) if column]
    frame = read_frame(path, [*layout.columns, *extra], text=layout.categories, most=dataset.most_bytes(_CELL))
    with reading(path):
        return _encoded(frame, layout, own_parts=bool(layout.part))


def _from_openml(dataset: Dataset, layout: Layout) -> Any:
    """OpenML's copy of a data set under the source's column names; it has no separate test part."""
    data, target = fetch(dataset, as_frame=True)
    columns = list(layout.openml or layout.columns)
    if data.shape != (sum(dataset.rows), len(columns)):
        raise missing(dataset, f"OpenML's copy has another shape, {data.shape}")
    frame = data.set_axis(columns, axis=1)
    frame[layout.target] = np.asarray(target)
    if layout.ids:
        frame[layout.ids] = np.arange(1, len(frame) + 1)
    return frame


def _encoded(frame: Any, layout: Layout, own_parts: bool) -> Raw:
    labels, y = np.unique(frame[layout.target].astype(str).to_numpy(dtype=str), return_inverse=True)
    if len(labels) != len(layout.classes):
        raise ValueError(f"its column {layout.target} has {len(labels)} different values, not {len(layout.classes)}")
    train, test = _own_parts(frame[layout.part]) if own_parts else hold_out(y)
    blocks: list[np.ndarray] = []
    names: list[str] = []
    sources: dict[str, range] = {}
    for column in layout.columns:
        block, titles = _column(frame[column], train, column in layout.categories, column in layout.skewed)
        sources[column] = range(len(names), len(names) + len(titles))
        blocks.append(block)
        names += titles
    X = np.concatenate(blocks, axis=1)
    ids = frame[layout.ids].to_numpy().astype(np.int64) if layout.ids else np.arange(len(X))
    whole = RawPart(X, y, ids)
    return Raw(whole.take(train), whole.take(test), layout.classes, None, tuple(names), sources, layout.groups)


def _own_parts(part: Any) -> tuple[np.ndarray, np.ndarray]:
    is_test = (part == "test").to_numpy(dtype=bool)
    if is_test.all() or not is_test.any():
        raise ValueError("its column split does not tell 'train' from 'test'")
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _column(column: Any, train: np.ndarray, categories: bool, skewed: bool) -> tuple[np.ndarray, list[str]]:
    if not categories:
        numbers = optional("pandas").to_numeric(column.astype(object)).to_numpy(dtype=np.float64)
        return standardised(numbers[:, None], train, skewed), [str(column.name)]
    words = column.astype(object).where(column.notna(), _ABSENT).astype(str).to_numpy(dtype=str)
    return _one_hot(words, train, str(column.name))


def standardised(X: np.ndarray, train: np.ndarray, skewed: bool = False) -> np.ndarray:
    """Columns of mean 0 and deviation 1 over the training rows; missing values become the median."""
    X = np.where(np.isnan(X), np.nanmedian(X[train], axis=0), X)
    if skewed:
        X = np.sign(X) * np.log1p(np.abs(X))
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    scaled: np.ndarray = (X - mean) / np.where(deviation > 0, deviation, 1.0)
    return scaled.astype(np.float32)


def _one_hot(words: np.ndarray, train: np.ndarray, name: str) -> tuple[np.ndarray, list[str]]:
    seen, counts = np.unique(words[train], return_counts=True)
    frequent = np.sort(seen[np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]])
    block = (words[:, None] == frequent).astype(np.float32)
    titles = [f"{name}={word}" for word in frequent]
    if len(frequent) < len(seen):
        block = np.concatenate([block, 1 - block.sum(axis=1, keepdims=True)], axis=1)
        titles.append(f"{name}=other")
    return block, titles
