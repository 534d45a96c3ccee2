"""Figures 2, 3, 6 and 7 of the VIM paper: tables on the terminal, and SVG files for the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scipy.stats import spearmanr

from benchmarks.accuracy import AUTHORS
from benchmarks.kept import Found
from benchmarks.pictures.draw import by_epoch, by_party, draw, percent, save, told
from benchmarks.pictures.study import Study, means
from benchmarks.pictures.subjects import DECAYED, FEW_EPOCHS, RHO, TAU, VIM
from benchmarks.table import show
from colonnade.report.shapes import scatter

SHOWN = (1, 2, 3, 5, 10)


def figure2(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """Accuracy per epoch."""
    study = replace(study, longer=True)
    found = {name: means([study.outcome(name, seed) for seed in seeds]) for name in study.among(VIM)}
    rows: list[list[object]] = []
    for name, one in found.items():
        rows.append([name, study.size(name), *(percent(one, f"epoch {epoch}") for epoch in SHOWN)])
        if study.data == "mnist" and name in AUTHORS:
            rows.append(["- authors' code, one seed", "", *(AUTHORS[name].get(epoch, "-") for epoch in SHOWN)])
    title = f"Figure 2, {study.subject.title}"
    show(f"{title}: test accuracy in % after epoch, {told(seeds)}", ["method", "trained", *map(str, SHOWN)], rows)
    lines = {f"{name}, {study.size(name)}": by_epoch(one) for name, one in found.items()}
    draw(pictures / f"figure2 {study.data}", f"{title}, {told(seeds)}", lines, "epoch", "test accuracy, %")


def figure3(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """Head norms, clean and with one noisy party, and what a noisy test party costs.

    Heads begin with norms that differ by chance, so the norms after the first round are shown beside the last.
    """
    first = replace(study, rounds=1)
    for method in study.among(("vimadmm", DECAYED)):
        norms = [parties(study.outcome(method, seed)) for seed in seeds]
        start = [parties(first.outcome(method, seed)) for seed in seeds]
        lost = {by: [study.lost(method, seed, by) for seed in seeds] for by in ("noise", "permutation")}
        noisy = means([parties(study.outcome(method, seed, "noisy")) for seed in seeds])
        if any(norms):
            columns = [means(start), means(norms), noisy]
            _show3(study, f"{method}, {study.size(method)}, {told(seeds)}", columns, lost)
            _rank3("the first round", start, lost)
            _rank3("the last round", norms, lost)
            _draw3(study, method, pictures, means(norms), {by: means(found) for by, found in lost.items()}, noisy)


def _show3(study: Study, title: str, norms: Sequence[Found], lost: Mapping[str, Sequence[Found]]) -> None:
    subject, costs = study.subject, [means(found) for found in lost.values()]
    rows = [
        [name, *(f"{one[name]:.3f}" if one else "-" for one in norms), *(percent(one, name) for one in costs)]
        for name in norms[1]
    ]
    head = ["party", "head norm, round 1", "last round", f"last round, {subject.noisy} noisy"]
    show(
        f"Figure 3, {subject.title}, {title}",
        [*head, f"points lost by noise {subject.test_noise:g}", "by permutation"],
        rows,
    )
    print()


def _rank3(when: str, norms: Sequence[Found], lost: Mapping[str, Sequence[Found]]) -> None:
    """Print how head norms and lost points rank the parties alike: every seed by itself, then the means."""
    for by, found in lost.items():
        known = [(one, other) for one, other in zip(norms, found, strict=True) if one and other]
        each = ", ".join(f"{rank(*pair):.3f}" for pair in known)
        over = rank(*(means(side) for side in zip(*known, strict=True))) if len(known) > 1 else None
        of_means = f"; of the means {over:.3f}" if over is not None else ""
        print(f"Spearman correlation of norms after {when} and points lost by {by}, by seed: {each or '-'}{of_means}")


def _draw3(study: Study, method: str, pictures: Path, clean: Found, lost: dict[str, Found], noisy: Found) -> None:
    title, name = f"{study.subject.title}, {method}, {study.size(method)}", f"{study.data} {method}"
    norms = {"clean": by_party(clean), f"{study.subject.noisy} noisy in training": by_party(noisy)}
    draw(pictures / f"figure3 norms {name}", f"Head norms, {title}", norms, "party", "norm of its head")
    points = {f"by {by}": [(k, 100 * drop) for k, drop in by_party(found)] for by, found in lost.items()}
    draw(pictures / f"figure3 lost {name}", f"Accuracy lost, {title}", points, "party", "points lost")


def figure7(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """VIMADMM by rho and by tau, on few rows."""
    size = study.size("vimadmm", "few")
    epochs = range(1, FEW_EPOCHS + 1)
    for option, called, values in (("rho", "rho", RHO), ("local_steps", "tau", TAU)):
        found = {
            f"{value:g}": means([study.outcome("vimadmm", seed, "few", **{option: value}) for seed in seeds])
            for value in values
        }
        rows = [[value, *(percent(one, f"epoch {epoch}") for epoch in epochs)] for value, one in found.items()]
        title = f"Figure 7, {study.subject.title}, {called}, {size}"
        show(f"{title}: test accuracy in % after epoch, {told(seeds)}", [called, *map(str, epochs)], rows)
        lines = {f"{called} {value}": by_epoch(one) for value, one in found.items()}
        draw(pictures / f"figure7 {called} {study.data}", title, lines, "epoch", "test accuracy, %")


def tsne(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """Figure 6: embeddings of the party with the largest and of the one with the smallest head."""
    found = study.maps(seeds[0])
    classes = [int(one) for (one,) in found.pop("classes", [])]
    names = [str(number) for number in range(max(classes, default=0) + 1)]
    for which, (party, points) in zip(("largest", "smallest"), found.items(), strict=False):
        save(pictures / f"tsne {study.data} {which}", scatter(f"{party}, {which} head", points, classes, names))


def parties(found: Found) -> Found:
    """The head norms among what was found."""
    return {name: value for name, value in found.items() if not name.startswith(("epoch", "accuracy"))}


def rank(one: Found, other: Found) -> float:
    """Spearman's correlation over parties."""
    return float(spearmanr([one[name] for name in one], [other[name] for name in one]).statistic)
