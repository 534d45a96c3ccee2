"""A package whose public names are loaded when the first of them is used.

``import colonnade`` therefore costs nothing, and verbs of the command that need no PyTorch start without it. All names
are loaded at once, so that from then on everything is registered and nothing depends on the order of use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """The package ``colonnade``; the module ``surface`` has its public names."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" or not name.startswith("_"):
            surface = import_module(f"{self.__name__}.surface")
            vars(self).update({public: getattr(surface, public) for public in ("__all__", *surface.__all__)})
        if name not in vars(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return vars(self)[name]

    def __setattr__(self, name: str, value: object) -> None:
        """An import of the folder ``methods`` does not take the place of the function of that name."""
        if name != "methods":
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)
