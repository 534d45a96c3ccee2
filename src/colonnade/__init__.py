"""Colonnade: vertical federated learning for PyTorch.

Every party keeps its columns; together they hold up one model.

>>> import colonnade as cn
>>> train, test = cn.load("digits", parties=4)
>>> run = cn.train(train, method="vimadmm", epochs=2)
>>> sorted(run.evaluate(test))
['accuracy', 'loss']
"""

import sys as _sys
import typing as _typing

from colonnade import interrupt as _interrupt  # noqa: F401 - before all that takes long to load
from colonnade.lazy_package import LazyPackage as _LazyPackage
from colonnade.version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from colonnade.surface import *  # noqa: F403

_sys.modules[__name__].__class__ = _LazyPackage
