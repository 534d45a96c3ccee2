"""What the README says is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.explain.importance import WAYS as WAYS_TO_MEASURE
from colonnade.seal import SEALS
from colonnade.selection import WAYS
from colonnade.task import TASKS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def run_code(text: str, folder: Path) -> str:
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def accuracies(printed: str) -> list[float]:
    return [float(number) for number in re.findall(r"'accuracy': ([\d.]+)", printed)]


def test_the_code_runs(tmp_path: Path) -> None:
    assert accuracies(run_code(README, tmp_path))[0] > 0.9
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_the_code_about_seals_runs(tmp_path: Path) -> None:
    printed = run_code((ROOT / "docs" / "seals.md").read_text(), tmp_path)
    assert accuracies(printed)[0] > 0.9 and "'setup'" in printed


def test_the_code_about_apfed_runs(tmp_path: Path) -> None:
    printed = run_code((ROOT / "docs" / "apfed.md").read_text(), tmp_path)
    assert len(accuracies(printed)) == 3 and min(accuracies(printed)) > 0.4
    assert "['owner'] 0 " in printed, "a prediction asks nobody"


def test_the_code_about_selection_runs(tmp_path: Path) -> None:
    printed = run_code((ROOT / "docs" / "selection.md").read_text(), tmp_path)
    assert "4 of 8 parties chosen by greedy" in printed and "The owner read" in printed


@pytest.mark.slow
def test_the_code_about_who_matters_runs(tmp_path: Path) -> None:
    printed = run_code((ROOT / "docs" / "explain.md").read_text(), tmp_path)
    assert "importance by permutation" in printed and "importance by run.importance() of 4 runs" in printed
    assert (tmp_path / "runs" / "rho.csv").exists()


def test_the_docs_name_every_way_to_measure_importance() -> None:
    text = (ROOT / "docs" / "explain.md").read_text()
    assert all(f'`"{way}"`' in text for way in WAYS_TO_MEASURE)


def test_the_code_about_tables_runs(tmp_path: Path) -> None:
    printed = run_code((ROOT / "docs" / "tables.md").read_text(), tmp_path)
    assert min(accuracies(printed)) > 0.7 and "job      category" in printed
    assert "refused: " in printed and "2 ids of 'twice'" in printed


def test_the_code_about_alignment_runs(tmp_path: Path) -> None:
    printed = run_code((ROOT / "docs" / "align.md").read_text(), tmp_path)
    assert "3 ids are common to 2 parties" in printed
    assert printed.count("'bank' relays and compares") == 2, "it is said before the run and after it"


def test_the_code_about_tasks_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tasks.md").read_text()
    printed = run_code(text, tmp_path)
    (r2,) = re.findall(r"'r2': ([\d.]+)", printed)
    assert float(r2) > 0.3 and "'macro_auc', 'micro_auc'" in printed
    assert all(f'`"{task}"`' in text for task in TASKS)


def test_the_docs_name_every_way_to_select() -> None:
    text = (ROOT / "docs" / "selection.md").read_text()
    assert all(f'`"{way}"`' in text for way in WAYS)


def test_the_docs_name_every_seal() -> None:
    text = (ROOT / "docs" / "seals.md").read_text()
    assert all(cls.__name__ in text for cls in SEALS.values())


def test_every_method_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([\w-]+)` \|", README, re.M)) == set(cn.methods())


def test_every_file_it_points_to_exists() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_changelog_names_every_method() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert all(f"`{name}`" in changelog for name in cn.methods())
