"""Loaded by fork servers before they fork: a small run, so that what torch loads at its first step is there already."""

import torch

import colonnade as cn

torch.set_num_threads(1)
cn.train(cn.load("digits", parties=2, rows=60)[0], "splitnn", rounds=1, batch=16, runtime="loop")
cn.train(cn.load("digits", parties=2, rows=60)[0], "splitnn", rounds=1, batch=16, runtime="loop", optimizer=cn.Adam())
