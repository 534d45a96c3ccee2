"""Readers of the image data sets: uint8 pixels, channels first, one array per part."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np

from colonnade.core.table import Scale
from colonnade.data.catalog import Dataset
from colonnade.data.raw import Raw, RawPart, hold_out, shuffled
from colonnade.data.source_files import Arrays, cached, fetch, missing, optional, read_arrays, reading, say

_PARTS = ("x_train", "y_train", "x_test", "y_test")
_SPRITES_ACROSS = 100
_PIXEL = 1  # byte

_SCALES = {
    "digits": Scale(16.0),
    "mnist": Scale(255.0, 0.1307, 0.3081),
    "fashion_mnist": Scale(255.0, 0.2860, 0.3530),
    "cifar10": Scale(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "tiny_imagenet100": Scale(255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "modelnet40_views": Scale(255.0),
}
_CLASSES = {
    "fashion_mnist": "T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag Boot",
    "cifar10": "airplane automobile bird cat deer dog frog horse ship truck",
}


def read_digits(dataset: Dataset) -> Raw:
    """The 1,797 digits that come with scikit-learn."""
    bunch = optional("sklearn.datasets").load_digits()
    pixels, y = bunch.images.astype(np.uint8), bunch.target
    train, test = (RawPart(pixels[rows], y[rows], rows) for rows in hold_out(y))
    return Raw(train, test, _class_names(dataset), _SCALES[dataset.name])


def read_pixels(dataset: Dataset) -> Raw:
    """Images that a file holds as arrays of pixels, else from OpenML."""
    path = dataset.path
    return _raw(dataset, _pixels(path, dataset) if path else _from_openml(dataset))


def read_sprites(dataset: Dataset) -> Raw:
    """Images that a file holds as a few large WebP pictures, else from OpenML."""
    path = dataset.path
    return _raw(dataset, _unpacked(path, dataset) if path else _from_openml(dataset))


def read_views(dataset: Dataset) -> Raw:
    """ModelNet40, with the shapes' own names as ids; shuffled, because the file is sorted by class."""
    path = dataset.path
    raw = _raw(dataset, _pixels(path, dataset, more=("ids_train", "ids_test")) if path else _from_openml(dataset))
    return Raw(shuffled(raw.train), shuffled(raw.test), raw.classes, raw.scale)


def _raw(dataset: Dataset, arrays: Arrays) -> Raw:
    train, test = (RawPart(arrays[f"x_{part}"], arrays[f"y_{part}"], _ids(arrays, part)) for part in ("train", "test"))
    return Raw(train, test, _class_names(dataset, arrays.get("classes")), _SCALES[dataset.name])


def _ids(arrays: Arrays, part: str) -> np.ndarray:
    """The pictures' names, or numbers; test pictures continue the training pictures' numbers, so ids are unique."""
    ids = arrays.get(f"ids_{part}")
    if ids is not None:
        return ids.astype(str)
    first = len(arrays["y_train"]) if part == "test" else 0
    return np.arange(first, first + len(arrays[f"y_{part}"]))


def _class_names(dataset: Dataset, stored: np.ndarray | None = None) -> tuple[str, ...]:
    if stored is not None:
        return tuple(map(str, stored))
    return tuple(_CLASSES.get(dataset.name, "").split()) or tuple(map(str, range(dataset.classes)))


def _pixels(path: Path, dataset: Dataset, more: tuple[str, ...] = ()) -> Arrays:
    arrays = read_arrays(path, [*_PARTS, *more], also="classes", most=dataset.most_bytes(_PIXEL))
    _check(path, dataset, arrays)
    return arrays


def _check(path: Path, dataset: Dataset, arrays: Arrays) -> None:
    with reading(path):
        for part in ("train", "test"):
            x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
            if x.dtype != np.uint8 or x.shape != (len(y), *dataset.shape):
                raise ValueError(f"its x_{part} is {x.dtype} of shape {x.shape} for {len(y)} labels")
            if y.ndim != 1 or y.dtype.kind not in "ui" or not 0 <= y.min() <= y.max() < dataset.classes:
                raise ValueError(f"its y_{part} are not class numbers from 0 to {dataset.classes - 1}")


def _unpacked(path: Path, dataset: Dataset) -> Arrays:
    status = path.stat()
    stamp, most = (status.st_size, status.st_mtime_ns), dataset.most_bytes(_PIXEL)
    arrays = cached(dataset.name, stamp, most, lambda: _decoded(path, dataset))
    _check(path, dataset, arrays)
    return arrays | read_arrays(path, (), also="classes", most=most)


def _decoded(path: Path, dataset: Dataset) -> Arrays:
    say(f"decoding {dataset.name}, once ...")
    keys = ["train_webp_0", "test_webp", "y_train", "y_test"]
    arrays = read_arrays(path, keys, also="train_webp_", most=dataset.most_bytes(_PIXEL))
    sprites = sorted(key for key in arrays if key.startswith("train_webp_"))
    return {
        "x_train": _cut_apart(path, [arrays[key] for key in sprites], dataset),
        "x_test": _cut_apart(path, [arrays["test_webp"]], dataset),
        "y_train": arrays["y_train"],
        "y_test": arrays["y_test"],
    }


def _cut_apart(path: Path, sprites: list[np.ndarray], dataset: Dataset) -> np.ndarray:
    channels, height, width = dataset.shape
    image = optional("PIL.Image")
    parts = []
    for sprite in sprites:
        with reading(path):
            opened = image.open(io.BytesIO(sprite.tobytes()))
            if opened.width * opened.height > sum(dataset.rows) * height * width:  # known before it is decoded
                raise ValueError(f"it has a picture of {opened.width:,} x {opened.height:,} pixels")
            picture = np.asarray(opened.convert("RGB"))
            grid = picture.reshape(-1, height, _SPRITES_ACROSS, width, channels)
            parts.append(grid.transpose(0, 2, 4, 1, 3).reshape(-1, channels, height, width))
    return np.concatenate(parts)


def _from_openml(dataset: Dataset) -> Arrays:
    def make() -> Arrays:
        data, target = fetch(dataset, as_frame=False)
        if np.shape(data) != (sum(dataset.rows), math.prod(dataset.shape)):
            raise missing(dataset, f"OpenML's copy has another shape, {np.shape(data)}")
        pixels = np.asarray(data).astype(np.uint8).reshape(-1, *dataset.shape)
        y = np.asarray(target).astype(np.uint8)
        cut = dataset.rows[0]  # OpenML keeps the training rows first
        return {"x_train": pixels[:cut], "y_train": y[:cut], "x_test": pixels[cut:], "y_test": y[cut:]}

    version = dataset.openml[1] if dataset.openml else 0
    return cached(f"{dataset.name}-openml", (version,), dataset.most_bytes(_PIXEL), make)
