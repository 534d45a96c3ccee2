"""Sweeps: one run for every combination of some settings, over processes, resumable, in one table.

A folder holds ``sweep.json``, what all points have in common, and one small file per point, written when the point is
done. So an interrupted sweep goes on where it was, and more values may be added to it later.
"""

from colonnade.study.sweep.grid import sweep
from colonnade.study.sweep.sweep_table import Sweep

__all__ = ["Sweep", "sweep"]
