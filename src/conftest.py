"""Modules that FLARE imports by name cannot be collected for their examples where nvflare is not installed."""

from importlib.util import find_spec

_FLARE = ["owner.py", "site.py", "wire.py"]
collect_ignore = [] if find_spec("nvflare") else [f"colonnade/flare/{name}" for name in _FLARE]
