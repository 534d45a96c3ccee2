"""The reference of a federation names every key of both files, every word, and what sides say."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from colonnade.federation import side_sections as sections
from colonnade.federation.protocol import WORDS
from colonnade.jobs.table_sections import PartySection
from pages import DOCS

PAGE = (DOCS / "federation.md").read_text()
SECTIONS: dict[str, Any] = {
    "`[federation]`\n": sections.FederationSection,
    "`[[party]]`, once": PartySection,
    "`[owner]`\n": sections.OwnerSection,
    "`[allow]`:": sections.AllowSection,
}


def table_after(heading: str) -> dict[str, str]:
    """The next table behind a heading: what stands in its second column, by the keys in the first."""
    table = re.search(r"(?:^\|.*\n)+", PAGE[PAGE.index(heading) :], re.M)
    assert table is not None
    rows = [line.split(" | ") for line in table.group().splitlines()[2:]]
    return {key: row[1] for row in rows for key in re.findall(r"`(\w+)`", row[0])}


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_is_explained_and_no_other(heading: str) -> None:
    assert set(table_after(heading)) == {field.name for field in fields(SECTIONS[heading])}


def test_defaults_are_the_true_ones() -> None:
    told, true = table_after("`[allow]`:"), sections.AllowSection()
    for name in ("delta", "alignments", "runs", "patience", "outputs"):
        assert float(told[name].strip("`")) == getattr(true, name)
    assert told["align"] == '`["psi"]`' and true.align == ["psi"] and true.needs == []
    how = sections.FederationSection()
    told = table_after("`[federation]`\n")
    assert told["listen"] == f'`"{how.listen}"`' and told["deadline"] == f"`{how.deadline}`"
    assert told["labels"] == f'`"{how.labels}"`'


def test_what_a_party_lets_be_described_is_explained() -> None:
    page, true = (DOCS / "describe.md").read_text(), sections.AllowDescribeSection()
    table = page.partition("The keys of a party's `[describe]`:")[2].partition("The owner's")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| ?`?([^`|]*?)`? ?\|", table, re.M))
    assert set(told) == {field.name for field in fields(true)}
    for name in ("minimum", "delta", "times"):
        assert float(told[name]) == getattr(true, name)
    assert (told["names"], told["proof"], told["epsilon"], true.epsilon) == ('"shown"', "true", "no limit", None)
    assert true.names == "shown" and true.proof


def test_the_keys_section_is_as_the_owner_s() -> None:
    said = re.search(r"^`\[keys\]` has (.*), as above", PAGE, re.M)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said.group(1))) == {field.name for field in fields(sections.KeysSection)}


def test_every_word_is_explained() -> None:
    assert set(table_after("## From hello")) >= set(WORDS)
