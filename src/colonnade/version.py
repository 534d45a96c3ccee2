"""Which Colonnade this is; sides of a federation must have the same."""

__version__ = "0.1.0"
