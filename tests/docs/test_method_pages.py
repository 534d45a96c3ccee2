"""One page per method: complete, with the ledger's bytes. The method that the docs write keeps the contract."""

import re
import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import test_contract
from test_contract import Case

import colonnade as cn
from colonnade.core import method as registry
from colonnade.core.disclosure import worst_label_word
from pages import DOCS, blocks_of, code_of

NAMES = sorted(cn.methods())
MADE = runpy.run_path(str(DOCS / "disclosures.py"))
SIZES = "b, E, C, M = 64, 60, 10, 4"
OTHER_SIZES = "b, E, C, M = 32, 8, 10, 8"


def page_of(name: str) -> str:
    return (DOCS / "methods" / f"{name}.md").read_text()


def run_code(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "page", "exec"), names)
    return names


def check_bytes(name: str, names: dict[str, Any]) -> None:
    """The page's formulas are of its own method, and right for each direction."""
    run, owners = names["run"], names["run"].ledger.owners
    assert run.method.name == name
    told = {"up": 0, "down": 0, "between": 0}
    for line in run.ledger.rows:
        if line.purpose == "train":
            way = "up" if line.sender not in owners else "between" if line.receiver in owners else "down"
            told[way] += line.payload
    assert told == {way: names.get(way, 0) for way in told}


def test_every_method_has_a_page_and_every_page_a_method() -> None:
    assert sorted(page.stem for page in (DOCS / "methods").glob("*.md")) == sorted([*NAMES, "index"])


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_the_ledger(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = code_of(page_of(name))
    assert SIZES in code and "\nassert run.ledger.payload == " in code
    check_bytes(name, run_code(code))
    (stated,) = re.findall(r"^print\(run.ledger.payload, run.ledger.total\)  # (\d+ \d+);", code, re.M)
    assert capsys.readouterr().out.strip() == stated
    check_bytes(name, run_code(code.replace(SIZES, OTHER_SIZES)))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_lists_all_options(name: str) -> None:
    listed = re.findall(r"^\| `(\w+)` \| `(.*?)` \| \S.* \|$", page_of(name), re.M)
    assert listed == [(field.name, repr(field.default)) for field in fields(cn.methods()[name])]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_what_the_method_shows(name: str) -> None:
    page, method = page_of(name), cn.methods()[name]
    assert MADE["with_table"](page, method) == page, "run python docs/disclosures.py"
    assert MADE["table_of"](method) in page
    assert f"\n- Labels: `{worst_label_word(method)}`" in page
    assert f"\n- `Blind`: {method.sums}.\n" in page
    assert ('owner="first"' in page) == method.needs_owner_columns


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_all_its_parts(name: str) -> None:
    page = page_of(name)
    assert page.startswith(f"# `{name}`: ") and "\n**When to use it.** " in page
    assert re.findall(r"^## (.*)$", page, re.M) == ["Bytes", "What leaks", "Options", "Reference"]
    idea, picture = page.split("\n\n")[1:3]
    assert len(re.findall(r"\.(?:\s|$)", idea)) == 3, "the idea in three sentences"
    assert picture.startswith("```text\n") and all(len(line) <= 125 for line in picture.splitlines())


def test_the_list_of_methods_is_what_they_say_of_themselves() -> None:
    listed = [line for line in page_of("index").splitlines() if line.startswith("| [`")]
    assert sorted(listed) == sorted(MADE["index_row"](method) for method in cn.methods().values())


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> Case:
    """The method of docs/write_a_method.md, in the registry for one test only."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    page = (DOCS / "write_a_method.md").read_text()
    (written,) = (block for block in blocks_of(page) if "@cn.register" in block)
    assert len(written.splitlines()) <= 110, "about a hundred lines"
    return Case(run_code(written)["Gated"]())


def test_the_method_of_the_docs_keeps_the_contract(gated: Case, tmp_path: Path) -> None:
    test_contract.test_all_runtimes_agree(gated)
    test_contract.test_resuming_is_exact(gated, "fused", tmp_path)
    test_contract.test_predictions_are_probabilities_and_need_no_labels(gated)
    test_contract.test_steps_are_declared(gated)
    test_contract.test_every_message_is_declared_and_every_declaration_has_a_message(gated)
    test_contract.test_nothing_raw_travels(gated)
    test_contract.test_methods_that_show_labels_say_so(gated)


def test_the_method_of_the_docs_is_registered_there_only() -> None:
    assert "gated" not in cn.methods()


def test_the_readme_says_what_every_method_shows() -> None:
    page = (DOCS.parent / "README.md").read_text()
    assert MADE["with_cells"](page) == page, "run python docs/disclosures.py"
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 8]
    assert sorted(line.split("`")[1] for line in rows) == NAMES
