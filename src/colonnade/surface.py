"""All that ``import colonnade as cn`` offers; loaded as a whole when the first of its names is used."""

from colonnade.core.disclosure import Disclosure
from colonnade.core.method import Method, Mine, Owner, Parties, Turn, methods, owner_step, party_step, register
from colonnade.core.optim import SGD, Adagrad, Adam
from colonnade.core.table import Scale, Table, common_rows
from colonnade.data import datasets, load
from colonnade.data.sharing import share
from colonnade.data.split import split
from colonnade.description.describe_tables import describe
from colonnade.description.description_result import Description
from colonnade.errors import ColonnadeError, ColonnadeWarning
from colonnade.methods import (
    CVFL,
    FDML,
    GAL,
    LASER,
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
    OneShot,
    SplitNN,
    VFedMH,
)
from colonnade.methods.passive import passive_loss
from colonnade.models import CNN, MLP, APFedCNN, Bottleneck, LeNet, Pretrained, ResNet, SmallCNN, TableNet, TinyCNN
from colonnade.privacy.audit import audit
from colonnade.privacy.audit_result import Audit
from colonnade.run.extension import extend
from colonnade.run.loggers import MLflow, TensorBoard, together
from colonnade.run.train import resume, train
from colonnade.run.training import Run
from colonnade.runtime.cluster import Cluster
from colonnade.seal import Bits, Blind, ClassNoise, LaplaceLabels, Marvell, MaxNorm, Noise, RandomLabels, Seal, TopK
from colonnade.selection.choice import Selection
from colonnade.study.distillation import distil
from colonnade.study.embedding_maps import EmbeddingMap, embedding_map
from colonnade.study.importance_of_parties import Importance, importance
from colonnade.study.noisy_tables import with_noise
from colonnade.study.score_files import score
from colonnade.study.scores import Scores
from colonnade.study.select_parties import keep, select
from colonnade.study.summarisation import summarise
from colonnade.study.sweep import Sweep, sweep
from colonnade.tables.align.align_sheets import align
from colonnade.tables.align.alignment import Alignment
from colonnade.tables.prepare import Preparation
from colonnade.tables.prepare.prepare_tables import prepare
from colonnade.tables.prepare.time_split import TimeSplit
from colonnade.tables.sheets import Sheet, read
from colonnade.version import __version__
from colonnade.wire.witness import Recording

__all__ = [
    "CNN",
    "CVFL",
    "FDML",
    "GAL",
    "LASER",
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
    "Audit",
    "Bits",
    "Blind",
    "Bottleneck",
    "ClassNoise",
    "Cluster",
    "ColonnadeError",
    "ColonnadeWarning",
    "Description",
    "Disclosure",
    "EmbeddingMap",
    "FedBCD",
    "FedOptimus",
    "Importance",
    "LaplaceLabels",
    "LeNet",
    "Local",
    "MLflow",
    "Marvell",
    "MaxNorm",
    "Method",
    "Mine",
    "MultiVFL",
    "Noise",
    "OneShot",
    "Owner",
    "Parties",
    "Preparation",
    "Pretrained",
    "RandomLabels",
    "Recording",
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
    "TimeSplit",
    "TinyCNN",
    "TopK",
    "Turn",
    "VFedMH",
    "__version__",
    "align",
    "audit",
    "common_rows",
    "datasets",
    "describe",
    "distil",
    "embedding_map",
    "extend",
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
