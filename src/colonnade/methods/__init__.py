"""The methods, one file each: citation and symbol map on top, both roles side by side, then the round.

Who looks a method up by its name imports that from here, so that all of them are registered.
"""

from colonnade.core.method import make_method, methods
from colonnade.methods.aggvfl import AggVFL
from colonnade.methods.apfed import APFed
from colonnade.methods.cvfl import CVFL
from colonnade.methods.fdml import FDML
from colonnade.methods.fedbcd import FedBCD
from colonnade.methods.fedoptimus import FedOptimus
from colonnade.methods.gal import GAL
from colonnade.methods.laser import LASER
from colonnade.methods.local import Local
from colonnade.methods.multivfl import MultiVFL
from colonnade.methods.oneshot import OneShot
from colonnade.methods.splitnn import SplitNN
from colonnade.methods.tvfl import TVFL
from colonnade.methods.vafl import VAFL
from colonnade.methods.vfedmh import VFedMH
from colonnade.methods.vimadmm import VIMADMM
from colonnade.methods.vimadmm_j import VIMADMMJ
from colonnade.methods.vimsgd import VIMSGD

__all__ = [
    "CVFL",
    "FDML",
    "GAL",
    "LASER",
    "TVFL",
    "VAFL",
    "VIMADMM",
    "VIMADMMJ",
    "VIMSGD",
    "APFed",
    "AggVFL",
    "FedBCD",
    "FedOptimus",
    "Local",
    "MultiVFL",
    "OneShot",
    "SplitNN",
    "VFedMH",
    "make_method",
    "methods",
]
