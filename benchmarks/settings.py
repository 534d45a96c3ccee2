"""The papers' settings for MNIST, in one place: 14 parties of two rows, batch 1024, MLP 56-120-60."""

from __future__ import annotations

import colonnade as cn
from colonnade.core.method import Method

PARTIES, BATCH, VALID = 14, 1024, 0.1
MODEL = cn.MLP((120,))

METHODS: dict[str, Method] = {
    "vafl": cn.VAFL(lr=0.3),
    "vimsgd": cn.VIMSGD(lr=0.3),
    "fdml": cn.FDML(lr=0.1),
    "splitnn": cn.SplitNN(lr=0.1),
    "fedbcd": cn.FedBCD(lr=0.05, local_steps=5),
    "vimadmm": cn.VIMADMM(lr=0.05, rho=2.0, local_steps=20),
    "vimadmm, paper's messages": cn.VIMADMM(lr=0.05, rho=2.0, local_steps=20, messages="paper"),
    "vimadmm-j": cn.VIMADMMJ(lr=0.1, rho=1.0, local_steps=20),
}
