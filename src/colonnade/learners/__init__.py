"""Learners by name: models that one side fits by itself, and whose state is plain tensors."""

from colonnade.learners.learner import Learner, learners, make_learner, register_learner
from colonnade.learners.linear import Linear
from colonnade.learners.network import Network
from colonnade.learners.trees import Trees

__all__ = ["Learner", "Linear", "Network", "Trees", "learners", "make_learner", "register_learner"]
