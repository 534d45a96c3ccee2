"""The documentation's pages as tests see them: which there are, their code, and how it is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def blocks_of(text: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


def code_of(text: str) -> str:
    """All Python blocks of a page together: they go on from one another."""
    return "\n".join(blocks_of(text))


def pages_with_code() -> list[Path]:
    """The README and every page under docs/ that has Python in it."""
    return [page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if code_of(page.read_text())]


def run_page(page: Path, folder: Path) -> str:
    """Run a page in a process of its own, so that what it registers ends with it; give what it printed."""
    code = code_of(page.read_text())
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout
