"""The report's sections beyond the curves: findings, comparisons, what each side could learn, files beside the page."""

import csv
import json
import xml.etree.ElementTree as ET
from dataclasses import asdict

import pytest
from test_report import read

from colonnade.errors import CheckpointError
from colonnade.report.compare import differing, groups
from colonnade.report.learns import could_learn, seals_on, values_in
from colonnade.report.run_pages import not_comparable, write_report
from colonnade.report.run_words import what_left
from colonnade.report.summary import RunView, read_summary
from colonnade.wire.ledger import Line
from synthetic_runs import HOSTILE, synthetic, write_folder


def sealed(method, *seals, **more):
    return RunView(synthetic("run", method={"name": method}, seal=[{"kind": seal} for seal in seals]) | more)


def up(step="embed", purpose="train", sender="party 1", summed=False):
    return Line(purpose, step, sender, "owner", 1, 400, 40, summed=summed)


def down(step="fit", purpose="train"):
    return Line(purpose, step, "owner", "party 1", 1, 400, 40)


# sections


def test_two_classes_have_four_pictures(tmp_path):
    _, text = read(write_report([synthetic("run", binary=True)], tmp_path / "page.html"))
    assert "Confusion matrix" in text and "ROC curve, area" in text
    assert "Precision and recall" in text and "Calibration" in text
    assert "Importance of each party" in text and "How each party sees the rows" in text


def test_values_and_labels_have_theirs(tmp_path):
    summary = synthetic("run")
    summary["findings"] = {"residuals": [{"reach": 2.0, "counts": [1, 5, 1]}], "labels": [[3, 1, 1, 5]], "rows": 9}
    _, text = read(write_report([summary], tmp_path / "page.html"))
    assert "Predicted less true" in text and "F1 0.750" in text


def test_many_classes_show_the_worst_confusions(tmp_path):
    summary = synthetic("run")
    summary["findings"] = {"confusion": [[j + 7 * k for j in range(60)] for k in range(60)], "rows": 9}
    _, text = read(write_report([summary], tmp_path / "page.html"))
    assert "Most frequent confusions" in text and "59 taken for 58" in text


def test_old_folders_without_findings_still_report(tmp_path):
    summary = synthetic("run")
    del summary["findings"], summary["missed"]
    _, text = read(write_report([read_summary(write_folder(summary, tmp_path / "run"))], tmp_path / "page.html"))
    assert "How good it is" not in text and "How it went" in text


def test_unfinished_run_says_so(tmp_path):
    summary = read_summary(write_folder(synthetic("run", rounds=500, last=120), tmp_path / "run"))
    _, text = read(write_report([summary], tmp_path / "page.html"))
    assert "last saved after round 120 of 500" in text
    assert RunView(summary).result["unfinished"] is True
    assert not RunView(summary | {"stopped": True}).unfinished


def test_newer_and_damaged_folders_are_refused_by_name(tmp_path):
    folder = write_folder(synthetic("run"), tmp_path / "run")
    manifest = next((folder / "checkpoints").glob("*/manifest.json"))
    whole = manifest.read_text()
    manifest.write_text(whole.replace("colonnade-checkpoint-1", "colonnade-checkpoint-2"))
    with pytest.raises(CheckpointError, match=r"newer Colonnade \(colonnade-checkpoint-2\)"):
        read_summary(folder)
    manifest.write_text(whole.replace('"round": 30', '"round": 31', 1))
    with pytest.raises(CheckpointError, match="damaged"):
        read_summary(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"confusion": [[1, 2]]},
        {"confusion": [["<b>"]]},
        {"roc": [[float("nan"), 1]]},
        {"maps": {"a": [[1, 2]]}, "classes": []},
        {"importance": {"a": None}},
    ],
)
def test_foreign_findings_are_refused(tmp_path, change):
    summary = synthetic("run") | {"findings": change}
    with pytest.raises(CheckpointError, match="does not describe a run"):
        read_summary(write_folder(summary, tmp_path))


def test_hostile_names_are_escaped_everywhere(tmp_path):
    summary = json.loads(json.dumps(synthetic("run", binary=True)).replace("party 1", json.dumps(HOSTILE)[1:-1]))
    summary["description"]["names"] = [HOSTILE, "<i>"]
    page = write_report([summary, summary | {"name": HOSTILE}], tmp_path / "page.html", pictures=True)
    checker, text = read(page)
    assert "window.stolen=1" in text and "i" not in checker.tags
    for picture in (tmp_path / "page-files").glob("*.svg"):
        assert not [one for one in ET.parse(picture).iter() if one.tag.endswith("script")]


# several runs


def test_runs_of_other_data_are_kept_apart_and_the_difference_is_told(tmp_path):
    runs = [synthetic("one"), synthetic("two", scale=9), synthetic("three", binary=True, data={"load": "adult"})]
    assert not_comparable(runs) == [
        "one and two cannot be compared with three: they differ in data (mnist, adult) and outputs (10, 2)."
    ]
    assert [len(group) for group in groups([RunView(run) for run in runs])] == [2, 1]
    _, text = read(write_report(runs, tmp_path / "page.html"))
    assert "one and two cannot be compared with three" in text
    assert text.count("Accuracy by round") == 2 and text.count("Accuracy against bytes") == 1


def test_runs_that_can_be_compared_say_what_differs(tmp_path):
    runs = [synthetic("one"), synthetic("two", method={"name": "vafl", "lr": 0.3})]
    assert not_comparable(runs) == []
    found = {row[0]: row[1:] for row in differing([RunView(run) for run in runs])}
    assert found == {"method": ["vimadmm", "vafl"], "lr": ["0.1", "0.3"], "rho": ["1.0", "-"]}
    _, text = read(write_report(runs, tmp_path / "page.html"))
    assert "What differs" in text and "cannot be compared" not in text


# what left the house


def test_what_each_side_could_learn():
    plain = sealed("vimadmm")
    assert values_in(plain, up()) == "embeddings"
    assert could_learn(plain, up()).startswith("It can rebuild nearly all of a party's columns (read)")
    assert values_in(plain, down()) == "target logits, a head"
    assert could_learn(plain, down()).startswith("It can read the labels of the rows (read)")
    assert "given one known label of each class" in could_learn(sealed("vafl"), down("follow"))
    assert could_learn(sealed("oneshot"), down("score")).startswith("It can read the labels")


def test_seals_that_lower_a_level_are_named_and_so_are_those_that_would():
    noisy = could_learn(sealed("vimadmm", "random-labels"), down())
    assert "noisy labels of the rows only (leaks)" in noisy and "without the seal 'random-labels'" in noisy
    assert "would lower that" in could_learn(sealed("vimadmm", "bits"), down())
    assert "a part of a party's columns (leaks)" in could_learn(sealed("vafl", "noise"), up())
    assert "nearly all" in could_learn(sealed("vafl", "bits", "topk"), up()), "few bits are no defence"


def test_blinded_sums_show_only_sums():
    run = sealed("vimadmm-j", "blind", "bits")
    summed = up("logits", summed=True)
    assert could_learn(run, summed).startswith("Only the sum over all parties, never one party's own values. It can")
    assert seals_on(run, summed) == ["bits", "blind"]
    assert seals_on(run, up("logits", "evaluate", summed=True)) == ["blind"]
    assert seals_on(run, up("head_norm", "explain")) == []
    assert values_in(run, Line("train", "logits", "owner", "party 1", 9, 36, 9)) == "the scale of the sum"
    mixed = sealed("vfedmh", "blind")
    assert seals_on(mixed, up("embed", summed=True)) == ["blind"] and seals_on(mixed, up("decide")) == []


def test_of_an_older_ledger_the_page_says_no_more_than_it_knows():
    run = sealed("vimadmm-j", "blind")
    assert "too old to say which" in could_learn(run, up("logits", summed=None))
    assert seals_on(run, up("logits", summed=None)) == []
    run.ledger.replace([asdict(up("logits", summed=None))])
    assert "blinded" not in what_left(run)


@pytest.mark.parametrize("words", [None, "embeddings, whose sum alone is used, and logits", "(only) their sum"])
def test_what_the_page_says_of_vfedmh_does_not_hang_on_its_description(monkeypatch, words):
    """The embeddings are summed and the logits are asked for one by one, in whatever words the method is described."""
    import colonnade as cn

    if words is not None:
        monkeypatch.setattr(cn.VFedMH, "party_sends", words)
    train, _ = cn.load("digits", parties=4, owner="first")
    run = RunView(cn.train(train, "vfedmh", rounds=2, seal=cn.Blind()).summary())
    lines = {line.step: line for line in run.ledger.rows if line.purpose == "train" and line.sender == "party 2"}
    assert could_learn(run, lines["embed"]).startswith("Only the sum over all parties, never one party's own values.")
    assert "(read)" in could_learn(run, lines["embed"]), "a sum of wide embeddings protects nobody"
    assert could_learn(run, lines["decide"]).startswith("It learns nothing that we know of")
    assert seals_on(run, lines["embed"]) == ["blind"] and seals_on(run, lines["decide"]) == []
    assert "only the blinded sum of step embed, and every party's own reply to step decide" in what_left(run)


def test_noise_on_answers_only_and_codecs_on_their_way():
    run = sealed("vafl", "noise")
    assert seals_on(run, up()) == ["noise"] and seals_on(run, down("follow")) == []
    run.seals = [{"kind": "topk", "ways": "down"}]
    assert seals_on(run, up()) == [] and seals_on(run, down("follow")) == ["topk"]


def test_every_method_has_words_for_its_messages():
    import colonnade as cn

    for name, method in cn.methods().items():
        run = sealed(name)
        for step in method.steps() | method.owner_steps():
            for line in (up(step), down(step)):
                assert values_in(run, line) and could_learn(run, line).endswith((".", "."))


def test_unknown_methods_are_not_guessed_about():
    run = sealed("theirs")
    assert values_in(run, up()) == "not known" and "not known" in could_learn(run, up())


def test_each_party_has_its_own_row(tmp_path):
    spent = {"spent": 3.25, "granted": 8.0, "releases": 4, "unit": "row", "delta": 1e-5, "covers": "a row"}
    summary = synthetic("run") | {"missed": {"party 2": 7}, "clipped": {"party 1": 0.5}, "privacy": {"party 1": spent}}
    _, text = read(write_report([summary], tmp_path / "page.html"))
    assert "Rounds missed" in text and "Values clipped" in text and "3.25 of 8" in text
    assert "party 2 60 " in text and " 7 0.00 %" in text


# files beside the page


def test_pictures_and_numbers_lie_beside_the_page(tmp_path):
    write_report([synthetic("one", binary=True), synthetic("two", binary=True)], tmp_path / "page.html", pictures=True)
    folder = tmp_path / "page-files"
    names = {path.name for path in folder.iterdir()}
    assert {
        "accuracy-by-round.svg",
        "accuracy-by-round.csv",
        "one-roc-curve.svg",
        "two-ledger.csv",
        "results.csv",
    } <= names
    assert {name[:-4] for name in names if name.endswith(".svg")} <= {name[:-4] for name in names if "csv" in name}
    for picture in folder.glob("*.svg"):
        assert ET.parse(picture).getroot().tag.endswith("svg") and "var(" not in picture.read_text()
    with (folder / "accuracy-by-round.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["line", "kind", "round", "accuracy"] and len(rows) == 61
    with (folder / "results.csv").open() as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["one", "two"]


def test_no_pictures_unless_asked(tmp_path):
    write_report([synthetic("one")], tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_large_run_stays_small(tmp_path):
    folder = write_folder(synthetic("large", parties=14, rounds=500), tmp_path / "run")
    page = write_report([read_summary(folder)], tmp_path / "page.html", pictures=True)
    assert page.stat().st_size < 5_000_000
    _, text = read(page)
    assert "14 parties trained one model" in text and "Each sender and receiver (42 lines)" in text


def test_a_map_is_two_numbers_per_row():
    run, line = sealed("vimadmm"), up("embedding_map", "explain")
    assert values_in(run, line) == "two numbers per row"
    assert could_learn(run, line).startswith("It can rebuild a part of a party's columns (leaks): two numbers per row")


def test_names_of_near_runs_do_not_cover_each_other(tmp_path):
    runs = [synthetic(f"run {k}", scale=100 + k) for k in range(4)]
    page = write_report(runs, tmp_path / "page.html", pictures=True)
    spots = ET.parse(page.with_name("page-files") / "accuracy-against-bytes.svg")
    lines = [one.get("y") for one in spots.iter() if one.tag.endswith("text") and "run " in str(one.text)]
    legend = 4
    assert len(set(lines)) == len(lines) == 2 + legend  # above and below, and no third
