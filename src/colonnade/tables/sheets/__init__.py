"""Files that organisations hold, read without taking them into memory: CSV, gzip, Parquet."""

from colonnade.tables.sheets.reading import read
from colonnade.tables.sheets.sheet import Sheet

__all__ = ["Sheet", "read"]
