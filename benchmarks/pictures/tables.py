"""Tables 3, 4 and 5 of the VIM paper beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev

from benchmarks.kept import Found
from benchmarks.pictures.draw import percent, told
from benchmarks.pictures.study import Study, means
from benchmarks.pictures.subjects import PAPER_TABLE3, PAPER_TABLE4, PAPER_TABLE5, VIM
from benchmarks.table import show


def table3(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """VIMADMM with all parties, with those of the largest heads, with those of the smallest."""
    found = {"all": [study.outcome("vimadmm", seed) for seed in seeds]}
    for share in (0.5, 0.2):
        for kind, most in (("top", True), ("bottom", False)):
            found[f"{kind} {share * 100:.0f} %"] = [study.part(seed, share, most=most) for seed in seeds]
    whole = means(found["all"])
    rows = []
    for name, each in found.items():
        one = means(each)
        less = f"{100 * (whole['accuracy'] - one['accuracy']):.2f}" if one and whole else "-"
        paper = PAPER_TABLE3[name] if study.data == "mnist" else "-"
        rows.append([name, percent(one, "accuracy"), spread(each), less, paper])
    title = f"Table 3, {study.subject.title}, vimadmm, {study.size('vimadmm')}: test accuracy in %, {told(seeds)}"
    show(title, ["parties", "ours", "spread", "points lost", "paper"], rows)


def table4(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """Accuracy on the way, with one party noisy in training and in the test."""
    epochs = (2, 5, 10)
    study = replace(study, longer=True)
    rows = []
    for name in study.among(("vafl", "vimsgd", "vimadmm")):
        one = means([study.outcome(name, seed, "noisy") for seed in seeds])
        paper = PAPER_TABLE4.get(study.data, {}).get(name, {})
        ours = [percent(one, f"epoch {epoch}") for epoch in epochs]
        rows.append([name, study.size(name), *ours, *(paper.get(epoch, "-") for epoch in epochs)])
    subject = study.subject
    title = (
        f"Table 4, {subject.title}, {subject.noisy} with noise {subject.train_noise:g}: test accuracy in % after epoch"
    )
    head = ["method", "trained", *map(str, epochs), *(f"{epoch}, paper" for epoch in epochs)]
    show(f"{title}, {told(seeds)}", head, rows)


def table5(study: Study, seeds: Sequence[int], pictures: Path) -> None:
    """A crowd of parties whose columns overlap."""
    crowd = study.subject.crowd
    if not crowd:
        print(f"Table 5 is of MNIST alone, so there is none of {study.subject.title}.")
        return
    rows = []
    for name in study.among(VIM):
        one = means([study.outcome(name, seed, "crowd") for seed in seeds])
        paper = PAPER_TABLE5.get(name, "-") if study.data == "mnist" else "-"
        rows.append([name, study.size(name, "crowd"), percent(one, "accuracy"), paper])
    title = f"Table 5, {study.subject.title}, {crowd['parties']} parties of {crowd['width']} columns that overlap"
    show(f"{title}: test accuracy in %, {told(seeds)}", ["method", "trained", "ours", "paper, converged"], rows)


def spread(found: Sequence[Found]) -> str:
    known = [100 * one["accuracy"] for one in found if one]
    return f"{stdev(known):.2f}" if len(known) > 1 else "-"
