"""The documentation site builds without a warning, and fetches nothing when it is read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pages import DOCS, ROOT


@pytest.mark.slow
def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    for page in (*DOCS.rglob("*.md"), Path("architecture.md"), Path("contributing.md"), Path("changelog.md")):
        name = page.relative_to(DOCS) if page.is_absolute() else page
        html = (tmp_path / name).with_suffix(".html").read_text()
        assert not re.findall(r"(?:src|href)=\"?(?:https?:)?//[^\s\">]+", html), name
