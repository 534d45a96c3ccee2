"""The page about audits has the table of all attacks as the registry gives it, and the words of the code."""

from __future__ import annotations

from colonnade.privacy.attack_table import attack_table
from colonnade.privacy.audit import BUDGET
from colonnade.privacy.row_sets import LEAST_OF_A_CLASS, LEAST_ROWS
from colonnade.privacy.verdict import WORDS
from pages import DOCS

PAGE = (DOCS / "audit.md").read_text()


def test_the_table_is_that_of_the_registry() -> None:
    assert attack_table() in PAGE


def test_words_and_numbers_are_those_of_the_code() -> None:
    flat = " ".join(PAGE.split())
    assert all(f"**{word}**" in PAGE for word in WORDS)
    assert f"{BUDGET:g} CPU seconds" in flat and f"at least {LEAST_ROWS} sampled rows" in flat
    assert f"{LEAST_OF_A_CLASS} of the rarer" in flat
