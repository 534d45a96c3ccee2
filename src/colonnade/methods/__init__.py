"""The methods, one file each: citation and symbol map on top, both roles side by side, then the round."""

from colonnade.methods.fdml import FDML
from colonnade.methods.fedbcd import FedBCD
from colonnade.methods.local import Local
from colonnade.methods.splitnn import SplitNN
from colonnade.methods.vafl import VAFL
from colonnade.methods.vimadmm import VIMADMM
from colonnade.methods.vimadmm_j import VIMADMMJ
from colonnade.methods.vimsgd import VIMSGD

__all__ = ["FDML", "VAFL", "VIMADMM", "VIMADMMJ", "VIMSGD", "FedBCD", "Local", "SplitNN"]
