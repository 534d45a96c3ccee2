"""What the README and the documentation say is run, and what they list is complete."""

import re
import runpy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.core.task import TASKS
from colonnade.learners import ExtraTrees, LightGBM, Linear, Network, RandomForest, Trees, XGBoost
from colonnade.seal import SEALS
from colonnade.study.importance_of_parties import WAYS as WAYS_TO_MEASURE
from colonnade.study.select_parties import WAYS
from pages import DOCS, ROOT, blocks_of, pages_with_code, run_page

README = (ROOT / "README.md").read_text()
WRAP = runpy.run_path(str(DOCS / "wrap.py"))
ALL_LEARNERS = (Trees, XGBoost, LightGBM, RandomForest, ExtraTrees, Linear, Network)
ELSEWHERE = ("methods", "index.md")  # pages of methods: test_method_pages.py; the first page shows the README's code
PAGES = [page for page in pages_with_code() if not {page.parent.name, page.name} & set(ELSEWHERE)]


def accuracies(printed: str) -> list[float]:
    return [float(number) for number in re.findall(r"'accuracy': ([\d.]+)", printed)]


def check_report(printed: str, folder: Path) -> None:
    assert accuracies(printed)[0] > 0.9
    assert (folder / "report.html").stat().st_size > 1000


def check_seals(printed: str, folder: Path) -> None:
    assert accuracies(printed)[0] > 0.9 and "'setup'" in printed


def check_apfed(printed: str, folder: Path) -> None:
    assert len(accuracies(printed)) == 3 and min(accuracies(printed)) > 0.4
    assert "['owner'] 0 " in printed, "a prediction asks nobody"


def check_selection(printed: str, folder: Path) -> None:
    assert "4 of 8 parties chosen by greedy" in printed and "The owner read" in printed


def check_description(printed: str, folder: Path) -> None:
    assert "nobody else can open one" in printed and "WoE +" in printed and "'bin 1'" in printed


def check_who_matters(printed: str, folder: Path) -> None:
    assert "importance by permutation" in printed and "importance by run.importance() of 4 runs" in printed
    assert (folder / "runs" / "rho.csv").exists()


def check_tables(printed: str, folder: Path) -> None:
    assert min(accuracies(printed)) > 0.7 and "job      category" in printed
    assert "refused: " in printed and "2 ids of 'twice'" in printed
    assert "train to 2024-05 test from 2024-06" in printed
    assert "<h2>By month</h2>" in (folder / "by-month.html").read_text()


def check_alignment(printed: str, folder: Path) -> None:
    assert "3 ids are common to 2 parties" in printed
    assert printed.count("and 'shop' compares them") == 2, "it is said before the run and after it"


def check_tasks(printed: str, folder: Path) -> None:
    (r2,) = re.findall(r"'r2': ([\d.]+)", printed)
    assert float(r2) > 0.3 and "'macro_auc', 'micro_auc'" in printed


def check_missing(printed: str, folder: Path) -> None:
    assert printed.count("['party 1', 'party 3', 'party 4']") == 2, "party 2 is absent from a prediction and a round"
    assert "\n2 0\n" in printed, "two of ten rounds went on without it"


def check_data(printed: str, folder: Path) -> None:
    assert all(f"\n{name} " in f"\n{printed}" for name in cn.datasets())


def check_deployment(printed: str, folder: Path) -> None:
    text = (DOCS / "deployment.md").read_text()
    assert "party-003" in printed
    for path in printed.split():
        name = re.sub(r"party-\d+", "party-000", Path(path).name)
        assert not Path(name).suffix or name in text, f"{path} is not in the page's table"


def check_operations(printed: str, folder: Path) -> None:
    assert "training None\n" in printed and "\nTrue []\n" in printed and "\n1437 []\nTrue\n" in printed
    assert 'colonnade_bytes_total{peer="shop",direction="sent"} 230000\n' in printed


def check_own_method(printed: str, folder: Path) -> None:
    *whole, sealed, without = accuracies(printed)
    assert len(whole) == 3 and whole[2] > 0.93 and sealed > 0.7 and without > 0.3
    assert len(set(re.findall(r"} (\d+)$", printed, re.M))) == 1, "three trainings of the same bytes"


def check_learners(printed: str, folder: Path) -> None:
    alone, together, bayes = accuracies(printed)
    assert together > alone > 0.5 and bayes > 0.7


CHECKS: dict[str, Callable[[str, Path], None]] = {
    "README.md": check_report,
    "seals.md": check_seals,
    "apfed.md": check_apfed,
    "selection.md": check_selection,
    "describe.md": check_description,
    "tables.md": check_tables,
    "align.md": check_alignment,
    "tasks.md": check_tasks,
    "missing.md": check_missing,
    "explain.md": check_who_matters,
    "data.md": check_data,
    "deployment.md": check_deployment,
    "operations.md": check_operations,
    "write_a_method.md": check_own_method,
    "learners.md": check_learners,
}
"""What must come out of a page, beside no error."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    printed = run_page(page, tmp_path)
    CHECKS.get(page.name, lambda printed, folder: None)(printed, tmp_path)


def test_the_first_page_shows_code_of_the_readme() -> None:
    assert blocks_of((DOCS / "index.md").read_text()) == blocks_of(README)[:1]


def test_no_check_is_left_over() -> None:
    assert CHECKS.keys() <= {page.name for page in PAGES}


def test_the_docs_name_every_task() -> None:
    text = (DOCS / "tasks.md").read_text()
    assert all(f'`"{task}"`' in text for task in TASKS)


def test_the_docs_list_every_learner_with_its_options() -> None:
    listed = dict(re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?) \| .*? \|$", (DOCS / "learners.md").read_text(), re.M))
    options = {cls.kind: ", ".join(f"`{one.name}={one.default:g}`" for one in fields(cls)) for cls in ALL_LEARNERS}
    assert listed == options


def test_the_docs_name_every_way_to_measure_importance() -> None:
    text = (DOCS / "explain.md").read_text()
    assert all(f'`"{way}"`' in text for way in WAYS_TO_MEASURE)


def test_the_docs_name_every_way_to_select() -> None:
    text = (DOCS / "selection.md").read_text()
    assert all(f'`"{way}"`' in text for way in WAYS)


def test_the_docs_name_every_seal() -> None:
    text = (DOCS / "seals.md").read_text()
    assert all(cls.__name__ in text for cls in SEALS.values())


def test_the_docs_list_every_data_set() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \| ([\d,]+), ([\d,]+) \| ([\dx ]+) \| (\d+) \|", (DOCS / "data.md").read_text(), re.M
    )
    rows = [
        (d.name, *(f"{n:,}" for n in d.rows), " x ".join(map(str, d.shape)), str(d.classes))
        for d in cn.datasets().values()
    ]
    assert listed == rows


def test_every_method_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([\w-]+)` \|", README, re.M)) == set(cn.methods())


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_every_file_a_page_points_to_exists(page: Path) -> None:
    """As a repository viewer follows links; `mkdocs build --strict` looks at those of the site."""
    for target in re.findall(
        r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    ):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", WRAP["PAGES"], ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_prose_has_lines_of_at_most_100_characters(page: Path) -> None:
    assert not WRAP["too_long"](page.read_text()), "run python docs/wrap.py"


def test_wrapping_keeps_code_and_begins_no_list() -> None:
    code = "```\n" + 40 * "code " + "\n```\n"
    wrapped = WRAP["wrap"](code + "- " + 8 * "seven words and a sum of" + " y - x " + 10 * "`a b` ")
    assert wrapped.startswith(code) and all(len(line) <= 100 for line in wrapped.splitlines()[3:])
    assert not re.search(r"^ *- x|a$", wrapped.partition("- seven")[2], re.M)


def test_the_changelog_names_every_method() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert all(f"`{name}`" in changelog for name in cn.methods())
