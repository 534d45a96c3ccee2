"""The page on who may do what names an attack for every promise, and leaves none out."""

import re

from pages import DOCS, ROOT

PAGE = (DOCS / "threat_model.md").read_text()
ATTACKS = {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")}


def promises() -> list[str]:
    """The lines of the tables of promises."""
    promised = PAGE.partition("## What is promised")[2].partition("## What is not promised")[0]
    tables = re.findall(r"\| promise \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", promised)
    return [line for table in tables for line in table.splitlines()]


def test_every_promise_names_an_attack() -> None:
    assert len(promises()) > 15
    for line in promises():
        named = set(re.findall(r"`(test_\w+\.py)`", line.split("|")[3]))
        assert named and named <= ATTACKS, line


def test_every_attack_stands_behind_a_promise() -> None:
    named = {name for line in promises() for name in re.findall(r"`(test_\w+\.py)`", line)}
    assert named == ATTACKS


def test_the_bounds_are_those_of_the_code() -> None:
    from colonnade.seal.shamir import threshold

    head, plain, recover = re.findall(r"^\| (?:mode|`Blind).*$", PAGE, re.MULTILINE)
    sizes = [int(one.removeprefix("K = ")) for one in head.strip("| ").split(" | ")[2:]]
    cells = [line.strip("| ").split(" | ")[2:] for line in (plain, recover)]
    for size, alone, with_recovery in zip(sizes, *cells, strict=True):
        assert int(alone) == size - 2
        if size >= 4:
            assert int(with_recovery) == min(2 * threshold(size) - size - 1, threshold(size) - 2)
