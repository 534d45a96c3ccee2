"""Organisations' files (CSV, gzip, Parquet, Arrow, DuckDB), read without loading them into memory as a whole."""

from colonnade.tables.sheets.reading import read
from colonnade.tables.sheets.sheet import Sheet

__all__ = ["Sheet", "read"]
