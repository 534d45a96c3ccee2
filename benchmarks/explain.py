"""Who matters on MNIST: head norms, what a noisy test party costs, a noisy party in training, half of the parties.

    python -m benchmarks.explain                                        VIMADMM-J, seed 0, one epoch
    python -m benchmarks.explain --methods vimadmm vimadmm-j --seeds 0 1 2 --epochs 3
    python -m benchmarks.explain --show                                 only what is in the folder

Fourteen parties of two pixel rows, the settings of the other benchmarks. The VIM paper (Figure 3, Tables 3 and 4) tests
with noise of standard deviation 10 on one party's test rows, trains with noise of 1 on the seventh party's training and
test rows, and trains once more with half of the parties. What was found is kept in ``--folder``, so an interrupted
benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import torch
from scipy.stats import spearmanr

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.settings import BATCH, METHODS, MODEL, PARTIES, VALID
from benchmarks.table import show

TEST_NOISE, TRAIN_NOISE, NOISY, REPEATS = 10.0, 1.0, "party 7", 2
PAPER = {"all": 97.12, "most": 96.58, "least": 78.11, "noisy": 96.22}  # the last after two epochs
NAMES = [f"party {k}" for k in range(1, PARTIES + 1)]


class Study:
    """The runs of one method and seed."""

    def __init__(self, method: str, seed: int, epochs: int, kept: Kept) -> None:
        self.method, self.seed, self.epochs, self.kept = method, seed, epochs, kept
        self.title = f"{method} {seed} {epochs} epochs"

    def trained(self, tables: list[cn.Table], name: str) -> cn.Run:
        """A run from its folder, or trained there."""
        place = self.kept.folder / f"{self.title} {name}".replace(" ", "-")
        if (place / "config.json").exists():
            return cn.resume(place, tables)
        how = {"batch": BATCH, "valid": VALID, "model": MODEL, "seed": self.seed, "epochs": self.epochs}
        return cn.train(tables, METHODS[self.method], folder=place, **how)  # type: ignore[arg-type]

    def clean(self) -> Found:
        """Head norms and accuracy."""
        train, test = mnist()
        run = self.trained(train, "all")
        norms = {f"norm of {name}": norm for name, norm in run.importance().items()}
        return norms | {"accuracy": run.evaluate(test)["accuracy"]}

    def lost(self, by: str) -> Found:
        """The share of test rows that are lost when one party's columns say nothing."""
        train, test = mnist()
        found = cn.importance(self.trained(train, "all"), test, by=by, scale=TEST_NOISE, repeats=REPEATS)
        return {f"{by} at {name}": drop for name, drop in found.each.items()}

    def noisy(self) -> Found:
        """The same with one party's columns noisy in training and in the test."""
        train, test = (cn.with_noise(part, NOISY, TRAIN_NOISE, seed) for seed, part in enumerate(mnist()))
        run = self.trained(train, "noisy")
        norms = {f"norm of {name}": norm for name, norm in run.importance().items()}
        return norms | {"accuracy": run.evaluate(test)["accuracy"]}

    def half(self, *, most: bool) -> Found:
        """Trained once more with half of the parties."""
        train, test = mnist()
        run = self.trained(train, "all").summarise(train, 0.5, most=most)
        chosen = {name: float(name in run.parties.names) for name in NAMES}
        return chosen | {"accuracy": run.evaluate(cn.keep(test, run.parties.names))["accuracy"]}

    def found(self) -> dict[str, Found]:
        """All that the study asks for, as far as it is there."""
        return {
            "all": self.kept(f"{self.title} all", self.clean),
            "noise": self.kept(f"{self.title} noise", lambda: self.lost("noise")),
            "most": self.kept(f"{self.title} most", lambda: self.half(most=True)),
            "least": self.kept(f"{self.title} least", lambda: self.half(most=False)),
            "noisy": self.kept(f"{self.title} noisy", self.noisy),
            "permutation": self.kept(f"{self.title} permutation", lambda: self.lost("permutation")),
        }


def mnist() -> tuple[list[cn.Table], list[cn.Table]]:
    return cn.load("mnist", parties=PARTIES)


def mean(found: list[Found], name: str, factor: float = 1.0, form: str = ".3f") -> str:
    """The mean over seeds, as text."""
    known = [factor * one[name] for one in found if name in one]
    return format(statistics.mean(known), form) if known else "-"


def show_parties(title: str, studies: list[dict[str, Found]]) -> None:
    """Party by party: what its head weighs, and what is lost without it."""
    parts = {name: [one[name] for one in studies] for name in ("all", "noise", "permutation", "noisy")}
    rows = [
        [
            name,
            mean(parts["all"], f"norm of {name}"),
            mean(parts["noise"], f"noise at {name}", 100, ".2f"),
            mean(parts["permutation"], f"permutation at {name}", 100, ".2f"),
            mean(parts["noisy"], f"norm of {name}"),
        ]
        for name in NAMES
    ]
    head = ["party", "head norm", "points lost by noise", "by permutation", f"head norm, {NOISY} noisy"]
    show(title, head, rows)
    for by in ("noise", "permutation"):
        each = [correlation(one["all"], one[by], by) for one in studies if one[by]]
        print(f"Spearman correlation of head norm and points lost by {by}: {', '.join(f'{r:.3f}' for r in each)}")


def correlation(norms: Found, lost: Found, by: str) -> float:
    pairs = [(norms[f"norm of {name}"], lost[f"{by} at {name}"]) for name in NAMES]
    return float(spearmanr(pairs).statistic)


def show_halves(title: str, studies: list[dict[str, Found]]) -> None:
    """Accuracy with all, with the half that matters, with the other half, and with one noisy party."""
    rows = []
    for name in ("all", "most", "least", "noisy"):
        found = [100 * one[name]["accuracy"] for one in studies if one[name]]
        if found:
            spread = f"{statistics.stdev(found):.2f}" if len(found) > 1 else "-"
            rows.append([name, f"{statistics.mean(found):.2f}", spread, f"{PAPER[name]:.2f}"])
    show(title, ["parties", "test accuracy %", "spread", "paper"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["vimadmm-j"], choices=["vimsgd", "vimadmm", "vimadmm-j"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/explain"))
    parser.add_argument("--show", action="store_true", help="train nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = Kept(options.folder, train=not options.show)
    for method in options.methods:
        studies = [Study(method, seed, options.epochs, kept).found() for seed in options.seeds]
        title = f"MNIST, {method}, {options.epochs} epochs, seeds {', '.join(map(str, options.seeds))}"
        show_parties(title, studies)
        show_halves(title, studies)


if __name__ == "__main__":
    main()
