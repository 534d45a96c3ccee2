"""Puts the repository's own pages (ARCHITECTURE.md and the like) on the site, with links that work in both places.

In the repository `docs/x.md` links to `../ARCHITECTURE.md`, and that one to `docs/y.md`; on the site all are pages
of one folder.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's pages as if they were in docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        for other, place in PAGES.items():
            text = text.replace(f"]({other}", f"]({place}")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to the root's pages lead to those on the site, from whatever depth."""
    for name, page in PAGES.items():
        markdown = re.sub(rf"\]\(((?:\.\./)*)\.\./{re.escape(name)}", rf"](\1{page}", markdown)
    return markdown
