"""Learners by name: models that one side fits by itself, and whose state is plain tensors."""

from colonnade.learners.estimator import Estimator
from colonnade.learners.forest import ExtraTrees, RandomForest
from colonnade.learners.learner import Learner, learners, make_learner, register_learner
from colonnade.learners.lightgbm_trees import LightGBM
from colonnade.learners.linear import Linear
from colonnade.learners.network import Network
from colonnade.learners.trees import Trees
from colonnade.learners.xgboost_trees import XGBoost

__all__ = [
    "Estimator",
    "ExtraTrees",
    "Learner",
    "LightGBM",
    "Linear",
    "Network",
    "RandomForest",
    "Trees",
    "XGBoost",
    "learners",
    "make_learner",
    "register_learner",
]
