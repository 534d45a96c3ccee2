"""Files that organisations hold, read without taking them into memory: CSV, gzip, Parquet."""

from colonnade.sheets.reading import read
from colonnade.sheets.sheet import Sheet

__all__ = ["Sheet", "read"]
