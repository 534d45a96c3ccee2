"""Colonnade: vertical federated learning for PyTorch.

Every party keeps its columns; together they hold up one model.

>>> import colonnade as cn
>>> train, test = cn.load("digits", parties=4)
>>> run = cn.train(train, method="vimadmm", epochs=2)
>>> sorted(run.evaluate(test))
['accuracy', 'loss']
"""

import colonnade.interrupt  # noqa: F401 - before all that takes long to load

# isort: split
from colonnade.align.result import Alignment
from colonnade.api import resume, train
from colonnade.data import datasets, load
from colonnade.distil import distil
from colonnade.errors import ColonnadeError, ColonnadeWarning
from colonnade.explain.importance import Importance, importance
from colonnade.explain.maps import EmbeddingMap, embedding_map
from colonnade.explain.noisy import with_noise
from colonnade.explain.summarise import summarise
from colonnade.loggers import MLflow, TensorBoard, together
from colonnade.method import Method, Mine, Owner, Parties, Turn, owner_step, party_step, register
from colonnade.methods import (
    CVFL,
    FDML,
    TVFL,
    VAFL,
    VIMADMM,
    VIMADMMJ,
    VIMSGD,
    AggVFL,
    APFed,
    FedBCD,
    FedOptimus,
    Local,
    MultiVFL,
    SplitNN,
    VFedMH,
)
from colonnade.methods.passive import passive_loss
from colonnade.models import CNN, MLP, APFedCNN, LeNet, ResNet, SmallCNN, TableNet, TinyCNN
from colonnade.optim import SGD, Adagrad, Adam
from colonnade.owners import share
from colonnade.prepare import Preparation
from colonnade.run import Run
from colonnade.runtime.cluster import Cluster
from colonnade.scores import Scores
from colonnade.scoring import score
from colonnade.seal import Bits, Blind, LaplaceLabels, Noise, RandomLabels, Seal, TopK
from colonnade.select.result import Selection
from colonnade.sheets import Sheet, read
from colonnade.split import split
from colonnade.table import Scale, Table

# isort: split
from colonnade.alignment import align  # after the packages of the same names, so that the functions win
from colonnade.method import methods
from colonnade.prepare.federation import prepare
from colonnade.selection import keep, select
from colonnade.sweep import Sweep, sweep
from colonnade.version import __version__

__all__ = [
    "CNN",
    "CVFL",
    "FDML",
    "MLP",
    "SGD",
    "TVFL",
    "VAFL",
    "VIMADMM",
    "VIMADMMJ",
    "VIMSGD",
    "APFed",
    "APFedCNN",
    "Adagrad",
    "Adam",
    "AggVFL",
    "Alignment",
    "Bits",
    "Blind",
    "Cluster",
    "ColonnadeError",
    "ColonnadeWarning",
    "EmbeddingMap",
    "FedBCD",
    "FedOptimus",
    "Importance",
    "LaplaceLabels",
    "LeNet",
    "Local",
    "MLflow",
    "Method",
    "Mine",
    "MultiVFL",
    "Noise",
    "Owner",
    "Parties",
    "Preparation",
    "RandomLabels",
    "ResNet",
    "Run",
    "Scale",
    "Scores",
    "Seal",
    "Selection",
    "Sheet",
    "SmallCNN",
    "SplitNN",
    "Sweep",
    "Table",
    "TableNet",
    "TensorBoard",
    "TinyCNN",
    "TopK",
    "Turn",
    "VFedMH",
    "__version__",
    "align",
    "datasets",
    "distil",
    "embedding_map",
    "importance",
    "keep",
    "load",
    "methods",
    "owner_step",
    "party_step",
    "passive_loss",
    "prepare",
    "read",
    "register",
    "resume",
    "score",
    "select",
    "share",
    "split",
    "summarise",
    "sweep",
    "together",
    "train",
    "with_noise",
]
