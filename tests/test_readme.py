"""What the README says is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import colonnade as cn
from colonnade.seal import SEALS
from colonnade.selection import WAYS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_code_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.S))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    accuracy = float(re.findall(r"'accuracy': ([\d.]+)", done.stdout)[0])
    assert accuracy > 0.9
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_the_code_about_seals_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "seals.md").read_text(), re.S))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert float(re.findall(r"'accuracy': ([\d.]+)", done.stdout)[0]) > 0.9 and "'setup'" in done.stdout


def test_the_code_about_selection_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "selection.md").read_text(), re.S))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "4 of 8 parties chosen by greedy" in done.stdout and "The owner read" in done.stdout


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
