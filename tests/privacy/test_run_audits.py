"""Audits of real runs: what must be found, what noise hides, budgets, bad input, files, the page and the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.errors import CheckpointError, ConfigError, TableError
from colonnade.privacy.agreement import agreement_of
from colonnade.privacy.audit import audit_of, chosen_attacks
from colonnade.privacy.audit_file import read_audit, write_audit
from colonnade.privacy.cases import Case, Evidence, cases_of, material_of
from colonnade.privacy.clock import Clock
from colonnade.privacy.row_sets import row_sets
from colonnade.report.run_pages import write_report
from colonnade.report.summary import read_summary

CHEAP = ["gradient scoring", "one known label a class", "decoder"]


@pytest.fixture(scope="module")
def tables():
    return cn.load("breast_cancer")[0]


@pytest.fixture(scope="module")
def run(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited") / "run"
    return cn.train(tables, "vafl", rounds=12, record=True, folder=folder)


@pytest.fixture(scope="module")
def found(run, tables):
    return cn.audit(run, tables, attacks=[*CHEAP, "shadow run"], budget=60.0)


def test_gradients_of_two_classes_are_read_and_columns_rebuilt(found):
    words = {(one.adversary, one.secret): one.word for one in found.verdicts}
    assert words["error", "labels"] == "read" == found.worst
    assert {words["owner", "columns"]} <= {"read", "leaks"}
    assert len(found.verdicts) == 9, "labels and columns of three parties, and what each tells of the next one's"


def test_a_sentence_has_the_figures_and_never_the_word_safe(found):
    text = " ".join(str(found).split())
    assert "safe" not in text.lower() and "Not tried: sides that collude" in text
    rebuilt = next(one for one in found.verdicts if one.of == "error" and one.secret == "columns")
    assert rebuilt.sentence.startswith("The owner keeps the messages") and "200 known rows" in rebuilt.sentence


def test_the_shadow_run_learns_labels_from_another_run(found):
    each = {one.adversary: one for one in found.verdicts if one.secret == "labels"}
    (shadow,) = [one for one in each["error"].attempts if one.attack == "shadow run"]
    assert shadow.control_passed and shadow.advantage.attack > 0.95 > shadow.advantage.control


def test_material_is_what_the_messages_said(run, tables):
    evidence = Evidence(run.view, tables, run)
    material = material_of(Case("mean", "owner", "labels"), evidence)
    (stream,) = material.streams
    assert (stream.sender, stream.receiver, stream.field) == ("owner", "mean", "slope")
    assert stream.values.shape[1] == len(run.view.sample) == len(material.truth)
    seen = next(one for one in run.view.seen if one.receiver == "mean" and one.round == stream.rounds[3])
    places = np.searchsorted(run.view.sample, seen.rows)
    np.testing.assert_array_equal(stream.values[3, places], seen.fields["slope"])
    others = np.setdiff1d(np.arange(len(run.view.sample)), places)
    assert np.isnan(stream.values[3, others]).all()
    np.testing.assert_array_equal(material.truth, tables[0].labels.numpy()[run.view.sample])
    assert {one.sender for one in material.sent} == {"mean"}


def test_a_network_is_the_partys_own(run, tables):
    material = material_of(Case("mean", "owner", "labels"), Evidence(run.view, tables, run))
    told = [run.outputs(tables), material.network.trained(material.own), material.network.untrained(material.own)]
    assert told[1].shape == told[2].shape == (len(run.view.sample), run.method.embedding)
    assert not np.allclose(told[1], told[2])


def test_rows_are_in_one_set_only():
    labels = np.arange(600) % 3
    usable = np.arange(600) >= 50
    sets = row_sets(usable, labels, seed=1)
    whole = np.concatenate(sets)
    assert len(set(whole)) == len(whole) and set(whole) <= set(range(50, 600))
    assert sorted(labels[sets.known]) == [0] * 10 + [1] * 10 + [2] * 10


def test_a_side_audits_what_it_sent(run, tables):
    owner, party = (replace(run.view, side=side) for side in ("owner", "mean"))
    assert {case.secret for case in cases_of(Evidence(owner, tables))} == {"labels"}
    assert cases_of(Evidence(party, [tables[1]])) == [Case("owner", "mean", "columns")]


def test_a_side_of_a_federation_needs_no_run_and_no_other_table(run, tables):
    own = replace(tables[0], columns=None)
    found = cn.audit(None, [own], view=replace(run.view, side="owner"), attacks=["gradient scoring", "shadow run"])
    assert {(one.secret, one.word) for one in found.verdicts} == {("labels", "read")}
    assert {one.declared for one in found.verdicts} == {"not declared"} and len(found.undeclared) == 3
    assert str(found).startswith("audit of the view of the owner:") and "MORE THAN" not in str(found)
    assert all("which is not here, and may tell as much" in one.sentence for one in found.verdicts)
    party = cn.audit(None, [tables[2]], view=replace(run.view, side="error"), attacks=["decoder"])
    assert [(one.of, one.word in ("read", "leaks")) for one in party.verdicts] == [("error", True)]
    with pytest.raises(ConfigError, match="its own view and its own table"):
        cn.audit(None, tables)
    with pytest.raises(TableError, match="pass the table of that run"):
        cn.audit(None, [own.take(np.arange(50))], view=replace(run.view, side="owner"))


@pytest.mark.slow
def test_independent_noise_is_no_finding(run, tables):
    rng = np.random.default_rng(0)

    def noise(fields):
        return {name: rng.standard_normal(value.shape).astype(np.float32) for name, value in fields.items()}

    view = replace(run.view, seen=[one._replace(fields=noise(one.fields), others={}) for one in run.view.seen])
    found = cn.audit(run, tables, attacks=CHEAP, view=view)
    assert {one.word for one in found.verdicts if one.attempts} <= {"nothing found", "not decided"}


def test_what_does_not_fit_is_not_tested(run, tables):
    found = cn.audit(run, tables, attacks=["decoder"], budget=1e-6)
    assert {one.word for one in found.verdicts} == {"not tested"} == {found.worst}
    assert "did not fit into the budget" in str(found)


def test_a_method_that_sends_nothing_gives_nothing_away(tables):
    run = cn.train(cn.load("breast_cancer", owner="first")[0], "local", rounds=5, record=True)
    found = cn.audit(run)
    assert {one.word for one in found.verdicts} == {"nothing found"}
    assert "no message of training" in found.verdicts[0].sentence


def test_each_of_several_owners_is_audited_by_itself():
    tables = cn.share(cn.load("digits", parties=2, rows=500)[0], 2, sizes=[5, 1])
    run = cn.train(tables, "multivfl", rounds=20, record=True)
    found = cn.audit(run, tables, attacks=["one known label a class", "equations"])
    each = {(one.adversary, one.of, one.secret): one for one in found.verdicts}
    labels = {owner: each["party 1", owner, "labels"] for owner in ("owner 1", "owner 2")}
    assert labels["owner 1"].worst.rows > 200 and labels["owner 1"].word in ("read", "leaks")
    assert labels["owner 2"].word == "not tested" and "an audit needs at least 100" in labels["owner 2"].sentence
    told = each["owner 2", "owner 1", "labels"]
    assert (told.word, told.declared) == ("not tested", "hints"), "top nets belong to no row"
    assert ("owner 1", "party 2", "columns") in each and ("party 2", "party 1", "columns") in each


def test_membership_is_tried_if_rows_were_held_out(run, tables):
    test = cn.load("breast_cancer")[1]
    found = cn.audit(run, tables, attacks=["membership"], test=test)
    told = found.verdicts[-1]
    assert (told.adversary, told.secret) == ("a client", "membership") and told.worst.control_passed
    assert told.word in ("hints", "not decided", "nothing found") and told not in found.undeclared
    assert "which rows were trained on with AUC 0." in told.sentence and "membership" not in found.head
    assert "membership among predictions (no rows that were held out came)" in cn.audit(run, tables, attacks=[]).head
    with pytest.raises(TableError, match="455 rows of test= are among those"):
        cn.audit(run, tables, test=tables)


def test_labels_that_were_sent_in_few_bits_are_read():
    tables = cn.load("digits", parties=2, rows=400)[0]
    run = cn.train(tables, cn.OneShot(learner="linear", top="linear"), record=True)
    found = cn.audit(run, tables, attacks=["label reading"])
    assert {one.word for one in found.verdicts if one.secret == "labels"} == {"read"}


def test_a_run_that_was_not_recorded_is_replayed(tables, run):
    again = cn.audit(cn.train(tables, "vafl", rounds=12), tables, attacks=["one known label a class"])
    was = cn.audit(run, tables, attacks=["one known label a class"])
    assert [one.sentence for one in again.verdicts] == [one.sentence for one in was.verdicts]


def test_what_was_not_asked_for_is_not_said_to_fit_nothing(run, tables):
    found = cn.audit(run, tables, attacks=["one known label a class"])
    columns = next(one for one in found.verdicts if one.secret == "columns")
    assert columns.sentence.endswith("not tested, because none of the attacks that were asked for is about it.")
    assert "it needs 1 known label a class." in found.verdicts[0].sentence


def test_sentences_about_values_have_no_classes_and_no_columns():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((300, 4)).astype(np.float32)
    tables = cn.split(columns, columns[:, 0] + columns[:, 3], 2)
    run = cn.train(tables, "splitnn", epochs=2, record=True)
    found = cn.audit(run, tables, attacks=["ten known labels a class"])
    (first, *_) = [one.worst.story for one in found.verdicts if one.secret == "labels"]
    assert first.endswith("it needs 20 known labels.") and "best" not in first


def test_the_same_seed_gives_the_same_audit(run, tables):
    both = [cn.audit(run, tables, attacks=["gradient scoring"], seed=3) for _ in range(2)]
    assert both[0].verdicts[0].sentence == both[1].verdicts[0].sentence


# bad input


def test_mistakes_are_refused_in_a_sentence(run, tables):
    with pytest.raises(ConfigError, match="unknown attack 'decodr'; did you mean 'decoder'"):
        cn.audit(run, tables, attacks=["decodr"])
    with pytest.raises(ConfigError, match="positive number of CPU seconds"):
        cn.audit(run, tables, budget=0)
    other = cn.load("breast_cancer", rows=300)[0]
    with pytest.raises(CheckpointError, match="trained on other tables"):
        cn.audit(run, other)
    few = cn.load("breast_cancer", rows=80)[0]
    with pytest.raises(TableError, match=r"80 rows .* needs at least 100"):
        cn.audit(cn.train(few, "vafl", rounds=3, record=True), few)
    own = [replace(table, origin=None) for table in few]
    with pytest.raises(ConfigError, match="the run's tables did not come"):
        cn.audit(cn.train(own, "vafl", rounds=3, record=True))


def test_a_view_of_another_run_is_refused(run, tables):
    counts = {line: (messages + 1, size) for line, (messages, size) in run.view.counts.items()}
    with pytest.raises(CheckpointError, match="it is of another run, or was changed"):
        cn.audit(run, tables, view=replace(run.view, counts=counts))


# files, page, command


def test_a_report_shows_the_audit(run, found, tmp_path):
    assert read_audit(tmp_path) == {}
    write_audit(found, run.folder)
    page = write_report([read_summary(run.folder)], tmp_path / "page.html", pictures=True).read_text()
    assert "What the messages gave away" in page and "Attacks beside their controls" in page
    assert (tmp_path / "page-files" / "attacks-beside-their-controls.csv").read_text().count("\n") == 10
    (run.folder / "audit.json").write_text('{"worst": 3}')
    with pytest.raises(CheckpointError, match="holds no audit"):
        read_summary(run.folder)
    (run.folder / "audit.json").unlink()


def invoke(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_the_command_audits_a_run_folder(run):
    told = invoke(run.folder, "--attack", "one known label a class", "--json", "--quiet", "--fail-on", "read")
    assert told.exit_code == 3, told.output
    assert json.loads(told.stdout)["worst"] == "read"
    assert read_audit(run.folder)["verdicts"][0]["by"] == "one known label a class"
    assert invoke(run.folder, "--attack", "decoder", "--budget", 1e-6, "--quiet").exit_code == 0
    (run.folder / "audit.json").unlink()


def test_the_command_rehearses_a_job(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text('[data]\nload = "breast_cancer"\n[train]\nmethod = "splitnn"\nrounds = 8\n')
    told = invoke("--job", job, "--attack", "gradient scoring", "--quiet")
    assert told.exit_code == 0 and "audit of splitnn on breast_cancer" in told.stdout
    planned = ["--method", "fdml", "--data", "breast_cancer", "--epochs", 4, "--seal", "bits:bits=4", "--option"]
    told = invoke(*planned, "embedding=8", "--attack", "label reading", "--quiet", "--json")
    assert told.exit_code == 0 and json.loads(told.stdout)["seals"][0]["bits"] == 4


def test_the_folder_of_one_side_is_told_from_that_of_a_run(tmp_path):
    (tmp_path / "terms.json").write_text("{}")
    told = invoke(tmp_path, "--job", tmp_path / "job.toml")
    assert told.exit_code == 2 and "has no plan that everybody signed" in " ".join(told.output.split())


def refused(*words):
    told = invoke(*words, "--quiet")
    assert told.exit_code == 2, told.output
    return " ".join(told.output.split())


def test_what_a_run_folder_lacks_is_said_in_a_sentence(run, tables, tmp_path):
    own = [replace(table, origin=None) for table in tables]
    cn.train(own, "vafl", rounds=2, folder=tmp_path / "apart")
    assert "was trained on files or tables, and guesses are judged by those" in refused(tmp_path / "apart")
    cn.train(cn.load("breast_cancer", rows=80)[0], "vafl", rounds=3, record=True, folder=tmp_path / "few")
    assert "80 rows of the sample" in (said := refused(tmp_path / "few")) and "needs at least 100" in said
    view = run.folder / "view" / "view.json"
    kept = view.read_text()
    view.write_text(kept[:-9])
    assert "view.json cannot be read" in refused(run.folder)
    view.write_text(kept)


def test_attacks_on_what_nobody_here_has_are_refused(run, tables):
    party = replace(run.view, side="error")
    with pytest.raises(ConfigError, match="is about the columns of 'error', and nothing"):
        cn.audit(None, [tables[2]], view=party, attacks=["gradient scoring"])


def test_a_method_without_declarations_is_not_declared(run, tables):
    class Silent(type(run.method)):
        disclosures = None

    agreed = replace(agreement_of(run), method=Silent())
    evidence = Evidence(replace(run.view, side="owner"), tables, signed=agreed)
    told = audit_of(evidence, chosen_attacks(["one known label a class"]), Clock(20.0))
    assert {one.declared for one in told.verdicts} == {"not declared"} and told.fails("undeclared")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to audit came"),
        (["--method", "vafl"], "nothing to audit came"),
        (["--method", "vafl", "--data", "digitz"], "unknown data set"),
        (["somewhere", "--method", "vafl"], "about a rehearsal"),
        (["somewhere"], "is not a run folder"),
        (["somewhere", "--fail-on", "safe"], "unknown word of --fail-on"),
        (["--method", "vafl", "--data", "digits", "--option", "lr"], "is not KEY=VALUE"),
        (["somewhere", "--attack", "decodr"], "unknown attack 'decodr'"),
        (["somewhere", "--budget", "0"], "positive number of CPU seconds"),
    ],
)
def test_mistakes_of_the_command_end_with_2(words, said):
    told = invoke(*words)
    assert told.exit_code == 2 and said in told.output.replace("\n", " ")
