"""Any estimator with scikit-learn's ``fit`` and ``predict`` as a learner; skops saves it without pickle.

Needs ``colonnade[skops]``. A job names learners, and nothing is imported by a name that came from outside: who wants an
estimator writes a class on :class:`Estimator` and registers it on every side. skops names the types in what it reads,
and types that are neither its own safe ones nor in ``trusted`` are refused before any of them is made.
"""

from __future__ import annotations

import inspect
import io
import warnings
import zipfile
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from colonnade.core.state import under
from colonnade.core.task import Task
from colonnade.errors import CheckpointError, ConfigError
from colonnade.learners.learner import Learner, State, applying
from colonnade.learners.problems import Array, Problem, base_of, problems_of

LEAST = 1e-4  # no probability is taken for smaller, as its logit would be endless
MOST_BYTES = 2**30  # of a saved estimator, unpacked


class Estimator(Learner):
    """A learner that another library fits; a subclass says how the estimator is made."""

    trusted: ClassVar[tuple[str, ...]] = ()
    """Types beyond those that skops knows to be safe, by their full names; read skops' page about them first."""

    @abstractmethod
    def make(self, classifies: bool, seed: int) -> Any:
        """A new estimator: a classifier with ``predict_proba``, or a regressor."""

    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """One estimator for each problem of the task, as skops writes it."""
        problems = problems_of(y, task)
        state: State = {"base": torch.from_numpy(base_of(problems, task.outputs))}
        for number, problem in enumerate(problem for problem in problems if not problem.constant):
            model = self._fitted(x.double().numpy(), problem, seed)
            columns = torch.tensor(problem.columns), torch.tensor(problem.classifies)
            state |= dict(zip(_names(number), (self._saved(model), *columns), strict=True))
        return state

    def outputs(self, state: State, x: Tensor) -> Tensor:
        """Values, or logits of the estimators' probabilities."""
        with applying(self.kind):
            sums = state["base"].repeat(len(x), 1)
            for number in sorted({name.partition("/")[0] for name in state if "/" in name}):
                one = under(state, number)
                model, rows = self._loaded(one["model"]), x.double().numpy()
                sums[:, one["columns"]] += torch.from_numpy(_outputs(model, rows, bool(one["classifies"])))
            return sums.float()

    def _fitted(self, x: Array, problem: Problem, seed: int) -> Any:
        model = self.make(problem.classifies, seed)
        wanted = {} if problem.weights is None else {"sample_weight": problem.weights}
        if wanted and "sample_weight" not in inspect.signature(model.fit).parameters:
            raise ConfigError(f"the learner '{self.kind}' takes no weights of rows; leave weights out, or use 'trees'.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit that is not quite done is a good one still
                return model.fit(problem.rows_of(x), problem.y, **wanted)
        except ValueError as error:
            raise ConfigError(f"the learner '{self.kind}' cannot be fitted: {_first_line(error)}.") from None

    def _saved(self, model: Any) -> Tensor:
        """The estimator as bytes; one that could not be read again is refused now, not after the training."""
        library = _skops()
        try:
            written = library.dumps(model)
        except Exception as error:  # skops lets through whatever a type's own methods raise
            raise ConfigError(f"the learner '{self.kind}' cannot be saved: {_first_line(error)}.") from None
        unknown = sorted({*library.get_untrusted_types(data=written)} - {*self.trusted})
        if unknown:
            raise ConfigError(
                f"the learner '{self.kind}' cannot be saved: skops does not know {', '.join(unknown)} to be safe; name "
                "these types in its 'trusted', or use another estimator."
            )
        return torch.frombuffer(bytearray(written), dtype=torch.uint8)

    def _loaded(self, saved: Tensor) -> Any:
        library, written = _skops(), saved.numpy().tobytes()
        try:
            with zipfile.ZipFile(io.BytesIO(written)) as file:
                size = sum(member.file_size for member in file.infolist())
            if size > MOST_BYTES:
                raise CheckpointError(
                    f"a saved '{self.kind}' has {size} bytes unpacked; at most {MOST_BYTES} are read."
                )
            return library.loads(written, trusted=list(self.trusted))
        except CheckpointError:
            raise
        except Exception as error:  # bytes that are damaged can make skops raise anything
            raise CheckpointError(f"a saved '{self.kind}' cannot be read: {_first_line(error)}.") from None


def _names(number: int) -> tuple[str, str, str]:
    return f"{number:04d}/model", f"{number:04d}/columns", f"{number:04d}/classifies"


def _outputs(model: Any, x: Array, classifies: bool) -> Array:
    """What is added to the problem's outputs [rows, outputs]: values, logits of each class, or of the second of two."""
    try:
        if not classifies:
            return np.asarray(model.predict(x), float).reshape(len(x), -1)
        logs = np.log(np.clip(model.predict_proba(x), LEAST, 1.0))
    except ValueError as error:
        raise ConfigError(f"the learner's {type(model).__name__} cannot predict: {_first_line(error)}.") from None
    return np.asarray(logs if logs.shape[1] > 2 else logs[:, 1:] - logs[:, :1])


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200].rstrip(".")


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ConfigError(
            "saving an estimator without pickle needs skops, which is not installed; pip install 'colonnade[skops]'."
        ) from None
    return skops.io
