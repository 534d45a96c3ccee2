"""Read data files from others, download from OpenML, and keep a cache of decoded images.

Files are not trusted: pickles are never read, and any problem with a file is raised as one DataError that names it.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.data.catalog import VARIABLE, Dataset
from colonnade.errors import DataError

Arrays = dict[str, np.ndarray]

_PATIENCE = 30.0  # seconds without a byte from OpenML


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any exception that a damaged file causes in its reader into one DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # zipfile, lzma, numpy, pandas and Pillow each raise different ones
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise DataError(f"{path} is damaged or not what it should be ({reason}); get the file again.") from error


def optional(module: str) -> Any:
    """Import a module of the extra ``data``, or raise the error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        wanted = module.partition(".")[0]
        raise DataError(
            f"reading this data set needs {wanted}, which is not installed; pip install 'colonnade[data]'."
        ) from error


def read_arrays(path: Path, keys: Sequence[str], also: str | tuple[str, ...] = (), *, most: int) -> Arrays:
    """The named arrays of an npz file, and those whose name starts with ``also``; together at most so many bytes."""
    # The file is opened here because numpy leaves it open when it is damaged.
    with reading(path), path.open("rb") as file:
        if file.read(2) != b"PK":  # numpy would take it for an array of whatever size it claims
            raise ValueError("it is no npz file")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            absent = [key for key in keys if key not in stored.files]
            if absent:
                raise ValueError(f"it has no array {', '.join(absent)}")
            wanted = [key for key in stored.files if key in keys or key.startswith(also)]
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in stored.zip.infolist()}
            _check_size(sum(sizes[key] for key in wanted), most)  # zipfile unpacks no more of an array than this
            return {key: stored[key] for key in wanted}


def read_frame(path: Path, columns: Sequence[str], text: Sequence[str], *, most: int) -> Any:
    """The named columns of a csv.gz file as a pandas frame; those in ``text`` stay text, such as hashes like 1e10."""
    pandas = optional("pandas")
    with reading(path):
        with gzip.open(path) as file:
            raw = file.read(most + 1)
        _check_size(len(raw), most)
        frame = pandas.read_csv(io.BytesIO(raw), usecols=lambda c: c in columns, dtype=dict.fromkeys(text, str))
        absent = [column for column in columns if column not in frame]
        if absent:
            raise ValueError(f"it has no column {', '.join(absent)}")
        return frame


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"it unpacks into {size >> 20:,} MB or more, where {most >> 20:,} MB is the most")


def fetch(dataset: Dataset, as_frame: bool) -> tuple[Any, Any]:
    """Data and target from OpenML by scikit-learn, which has a cache of its own."""
    if dataset.openml is None:
        raise missing(dataset)
    optional("pandas")  # scikit-learn's parser needs it
    name, version = dataset.openml
    say(f"fetching {dataset.name} from OpenML, once ...")
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)  # scikit-learn sets no timeout, and could wait forever
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns of every retry; one error follows below instead
            bunch = optional("sklearn.datasets").fetch_openml(
                name, version=version, as_frame=as_frame, n_retries=1, delay=0.5
            )
        return bunch.data, bunch.target
    except (OSError, ValueError, HTTPException) as error:
        raise missing(dataset, f"OpenML's {name} version {version} did not come ({error})") from error
    finally:
        socket.setdefaulttimeout(before)


def missing(dataset: Dataset, why: str = "OpenML does not have it") -> DataError:
    """The error for a data set that cannot be found anywhere."""
    folder = os.environ.get(VARIABLE)
    state = f"{VARIABLE} is {folder}, without that file" if folder else f"{VARIABLE} is not set"
    return DataError(
        f"{dataset.name} is not here: {state}, and {why}; set {VARIABLE} to a folder with {dataset.file} "
        f"(holding {dataset.layout}; from {dataset.source})."
    )


def cached(name: str, stamp: Sequence[int], most: int, make: Callable[[], Arrays]) -> Arrays:
    """Arrays that take seconds to make, kept in the user's cache folder for as long as ``stamp`` stays the same."""
    path = cache_folder() / f"{name}.npz"
    with contextlib.suppress(DataError):
        if path.is_file():
            arrays = read_arrays(path, ["stamp"], also="", most=most)
            if arrays.pop("stamp").tolist() == list(stamp):
                return arrays
    made = make()
    with contextlib.suppress(OSError):  # with a full or read-only disk the arrays are only made again next time
        _write(path, made | {"stamp": np.array(stamp)})
    return made


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/colonnade``, by default ``~/.cache/colonnade``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "colonnade"


def _write(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        os.replace(partial, path)  # another process reads the old file or the new one, never part of one
    except BaseException:
        os.unlink(partial)
        raise


def say(line: str) -> None:
    """Print one line of progress to stderr, so that stdout stays machine-readable."""
    print(f"colonnade: {line}", file=sys.stderr, flush=True)
