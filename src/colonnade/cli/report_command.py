"""``colonnade report RUN...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.app import Json, app, echo, print_json, remark


@app.command(epilog="Example: colonnade report runs/vafl-digits-0 runs/vimadmm-digits-0 --out both.html")
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or several run folders.")],
    page: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the page goes.")] = Path("report.html"),
    pictures: Annotated[
        bool, typer.Option(help="Put each picture as SVG, and its numbers as CSV, into a folder beside the page.")
    ] = True,
    json: Json = False,
) -> None:
    """Write one page about one or several runs: curves, results, and what left the house."""
    from colonnade.report.run_pages import not_comparable, not_finished, write_report
    from colonnade.report.summary import RunView, read_summary

    summaries = [read_summary(run) for run in runs]
    written = write_report(summaries, page, pictures=pictures)
    apart = not_comparable(summaries)
    if json:
        results = [RunView(summary).result for summary in summaries]
        entries = [{"folder": str(run), **facts} for run, facts in zip(runs, results, strict=True)]
        print_json({"report": str(written), "runs": entries, "not_comparable": apart})
        return
    for sentence in [*not_finished(summaries), *apart]:
        remark(f"note: {sentence}")
    echo(f"report: {written}")
