"""The documentation's pages as tests see them: which there are, their code, and how it is run."""

import os
import re
import sys
from pathlib import Path
from types import ModuleType

from forks import context

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
    said = folder.with_name(f"{folder.name}.said")
    process = context.Process(target=_run_as_main, args=(code_of(page.read_text()), folder, said))
    process.start()
    process.join()
    assert process.exitcode == 0, said.read_text()
    return said.read_text()


def _run_as_main(code: str, folder: Path, said: Path) -> None:
    """As ``python -c`` runs it; what it and its own processes say goes into a file."""
    os.chdir(folder)
    with said.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.modules["__main__"] = main = ModuleType("__main__")
    exec(compile(code, "<page>", "exec"), main.__dict__)
