"""The VIM paper's pictures and tables, each with one command.

    python -m benchmarks.pictures figure2 --data mnist         accuracy per epoch
    python -m benchmarks.pictures figure3 --data fashion_mnist head norms, and what a noisy test party costs
    python -m benchmarks.pictures table3                       trained with the largest and the smallest heads
    python -m benchmarks.pictures table4                       one party noisy in training
    python -m benchmarks.pictures table5                       100 parties whose pixels overlap
    python -m benchmarks.pictures figure7                      rho and tau
    python -m benchmarks.pictures tsne                         embeddings of the largest and the smallest head
    python -m benchmarks.pictures all --only-show              all of them from what is kept

What runs found is kept in ``--folder``, one small file each; the runs themselves lie in ``--runs``, so an interrupted
run goes on where it was. ``--rounds`` and ``--rows`` make every run shorter (and are named in its file). Data: MNIST,
Fashion-MNIST and ModelNet40 of COLONNADE_DATA; ``--data digits`` needs no file and takes seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.kept import Kept
from benchmarks.pictures.figures import figure2, figure3, figure7, tsne
from benchmarks.pictures.study import Study
from benchmarks.pictures.subjects import SUBJECTS
from benchmarks.pictures.tables import table3, table4, table5

COMMANDS: dict[str, Callable[[Study, Sequence[int], Path], None]] = {
    command.__name__: command for command in (figure2, figure3, table3, table4, table5, figure7, tsne)
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*COMMANDS, "all"])
    parser.add_argument("--data", nargs="+", default=["mnist"], choices=list(SUBJECTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--methods", nargs="+", default=[], choices=list(SUBJECTS["mnist"].methods))
    parser.add_argument("--rounds", type=int, help="of every run, in place of its epochs")
    parser.add_argument("--rows", type=int, help="training rows, all if not given")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/vim"))
    parser.add_argument("--runs", type=Path, default=Path("runs/pictures"))
    parser.add_argument("--pictures", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--only-show", action="store_true", help="train nothing")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for data in options.data:
        kept = Kept(options.folder, train=not options.only_show)
        study = Study(data, kept, options.runs, options.rounds, options.rows, options.methods)
        for name in COMMANDS if options.what == "all" else [options.what]:
            COMMANDS[name](study, options.seeds, options.pictures)


if __name__ == "__main__":
    main()
