"""Loggers for ``on_round``: a run's history, row by row as it comes, in tools that people already use.

What is logged is the owner's history (metrics, bytes, seconds); nothing of a party is, and no message.
"""

from __future__ import annotations

import importlib
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.errors import ColonnadeWarning, ConfigError
from colonnade.run.training import Run

OnRound = Callable[[Run], None]


def together(*callbacks: OnRound) -> OnRound:
    """Several callbacks as one, for ``on_round``."""

    def on_round(run: Run) -> None:
        for callback in callbacks:
            callback(run)

    return on_round


class Logger(ABC):
    """Logs every row of a run's history once; what a resumed run knew before is not logged again."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._logged = 0

    def __call__(self, run: Run) -> None:
        """Log what is new."""
        if run is not self._run:
            self._start(run)
        rows, self._logged = run.history[self._logged :], len(run.history)
        with self._failing_softly():
            for row in rows:
                self._log(int(row["round"]), {_name(key): value for key, value in row.items() if key != "round"})

    def _start(self, run: Run) -> None:
        self.close()
        try:
            self._begin(run)
        except Exception as error:
            raise ConfigError(f"{type(self).__name__} cannot log this run: {_told(error)}.") from error
        self._run, self._logged = run, sum(row["round"] < run.round for row in run.history)

    def close(self) -> None:
        """Say that no more will come of this run."""
        if self._run is not None:
            run, self._run = self._run, None
            with self._failing_softly():
                self._end(finished=run.stopped or run.round >= run.settings.rounds)

    @contextmanager
    def _failing_softly(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a tool or its server raises: hours of training are worth more
            warnings.warn(
                f"{type(self).__name__} did not take all of the history: {_told(error)}.", ColonnadeWarning, 3
            )

    @abstractmethod
    def _begin(self, run: Run) -> None: ...

    @abstractmethod
    def _log(self, round: int, values: dict[str, float]) -> None: ...

    @abstractmethod
    def _end(self, *, finished: bool) -> None: ...


class TensorBoard(Logger):
    """Logs a run to a folder for ``tensorboard --logdir``; needs ``colonnade[tensorboard]``."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._make = _need("torch.utils.tensorboard", "tensorboard").SummaryWriter
        self._writer: Any = None

    def _begin(self, run: Run) -> None:
        self._writer = self._make(str(self._folder))

    def _log(self, round: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def _end(self, *, finished: bool) -> None:
        self._writer.close()


class MLflow(Logger):
    """Logs each run it is given to as a run of an MLflow experiment; needs ``colonnade[mlflow]``.

    ``uri`` is a tracking server or store; without it MLflow's own default, such as MLFLOW_TRACKING_URI, is taken.
    """

    def __init__(self, uri: str | None = None, experiment: str = "colonnade", name: str | None = None) -> None:
        super().__init__()
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # who federates does not tell third parties
        self._mlflow = _need("mlflow", "mlflow")
        self._uri, self._experiment, self._name = uri, experiment, name
        self._client: Any = None
        self._id = ""

    def _begin(self, run: Run) -> None:
        self._client = self._mlflow.MlflowClient(self._uri)
        known = self._client.get_experiment_by_name(self._experiment)
        number = known.experiment_id if known else self._client.create_experiment(self._experiment)
        self._id = self._client.create_run(number, run_name=self._name or run.method.name).info.run_id
        for key, value in _choices(run).items():
            self._client.log_param(self._id, key, value)

    def _log(self, round: int, values: dict[str, float]) -> None:
        now, metric = int(1000 * time.time()), self._mlflow.entities.Metric
        self._client.log_batch(self._id, [metric(name, value, now, round) for name, value in values.items()])

    def _end(self, *, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


def _choices(run: Run) -> dict[str, Any]:
    """What decided the run: its method with its options, its settings."""
    described = run.summary()["description"]
    options = {f"method/{key}": value for key, value in described["method"].items()}
    return options | {key: value for key, value in described["settings"].items() if value is not None}


def _name(key: str) -> str:
    """A column of the history as a tool groups it.

    >>> _name("test_average_precision"), _name("bytes")
    ('test/average_precision', 'bytes')
    """
    part, _, rest = key.partition("_")
    return f"{part}/{rest}" if part in ("train", "valid", "test") else key


def _told(error: Exception) -> str:
    """The first line of what a tool says, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].strip().removesuffix(".")


def _need(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(f"logging to {extra} needs it installed; pip install 'colonnade[{extra}]'.") from None
