"""oneshot: one message, out-of-fold scores, labels that stay or are protected, rows and parties that are missing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.errors import ConfigError, MessageError
from colonnade.methods import oneshot
from colonnade.methods.label_codes import hard
from colonnade.methods.party_fits import as_scores

TREES = "trees(iterations=30, rate=0.1)"
QUICK = cn.OneShot(learner=TREES, top=TREES)
WIDTHS = (3, 4, 4)


def rows(count: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A label that depends on products of columns within a party: trees see it, a line does not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, sum(WIDTHS))).astype(np.float32)
    score = x[:, 0] + 1.5 * x[:, 3] * x[:, 4] + 1.5 * x[:, 7] * x[:, 8]
    return x, (score + rng.normal(size=count) * 0.3 > 0).astype(np.int64)


def federation(x: np.ndarray, y: np.ndarray) -> list[cn.Table]:
    cuts = itertools.pairwise(np.cumsum((0, *WIDTHS)).tolist())
    return cn.split(x, y, [list(range(a, b)) for a, b in cuts], owner="first")


@pytest.fixture(scope="module")
def pair() -> tuple[list[cn.Table], list[cn.Table]]:
    return federation(*rows()), federation(*rows(600, seed=1))


@pytest.fixture(scope="module")
def run(pair: tuple[list[cn.Table], list[cn.Table]]) -> cn.Run:
    return cn.train(pair[0], QUICK, seal=cn.Bits(8))


def central(train: list[cn.Table], test: list[cn.Table]) -> float:
    x, z = (np.hstack([table.columns.numpy() for table in tables]) for tables in (train, test))
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(x, train[0].labels.numpy())
    return float(roc_auc_score(test[0].labels.numpy(), model.predict_proba(z)[:, 1]))


def test_one_round_with_all_rows_whatever_is_asked(pair: tuple[list[cn.Table], list[cn.Table]], run: cn.Run) -> None:
    assert run.round == run.settings.rounds == 1 and run.settings.batch == 1200
    asked = cn.train(pair[0], replace(QUICK, learner="linear", top="linear"), epochs=10, batch=16)
    assert asked.settings.rounds == 1 and asked.settings.batch == 1200


def test_it_is_near_the_trees_that_have_all_columns(pair: tuple[list[cn.Table], list[cn.Table]], run: cn.Run) -> None:
    train, test = pair
    alone = central([train[0]], [test[0]])
    assert run.evaluate(test)["auc"] > central(train, test) - 0.03 > alone + 0.1


def test_a_score_takes_a_byte_and_a_label_a_bit(run: cn.Run) -> None:
    up = [line for line in run.ledger.rows if line.step == "score" and line.receiver == "owner"]
    down = [line for line in run.ledger.rows if line.step == "score" and line.sender == "owner"]
    assert {line.messages for line in (*up, *down)} == {1}
    assert all(line.payload == 150 for line in down)
    assert all(1200 <= line.payload <= 1220 for line in up)  # and a scale and a form


def test_rows_in_order_of_date_are_no_trouble() -> None:
    """Rates that drift along the file: contiguous folds would be fitted to other times than they score."""
    x, _ = rows(1500)
    time = np.linspace(0, 1, 1500)
    y = (np.sin(9 * time) + x[:, 3] * 0.5 + 0.3 * np.random.default_rng(3).normal(size=1500) > 0).astype(np.int64)
    x[:, 4] = time
    train = federation(x, y)
    run = cn.train(train, QUICK)
    assert run.evaluate(train)["auc"] > 0.9
    assert not np.array_equal(run.schedule.batch_of(0).numpy(), np.arange(1500))


def test_scores_do_not_know_the_labels_of_their_rows(pair: tuple[list[cn.Table], list[cn.Table]]) -> None:
    """With labels drawn by lot the owner's trees trust no score; in-sample scores would deceive them."""
    x, _ = rows(800)
    y = np.random.default_rng(5).integers(0, 2, 800)
    train, test = federation(x, y), federation(rows(800, 9)[0], np.random.default_rng(6).integers(0, 2, 800))
    run = cn.train(train, replace(QUICK, learner="trees(iterations=80, leaves=31, least_rows=2)"))
    assert abs(run.evaluate(test)["auc"] - 0.5) < 0.08


def test_guesses_for_rows_of_ones_own_carry_no_label_to_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows like the aligned ones get classes by guess; a guess by a learner that saw row 0 would tell row 0's score."""
    x, y = rows(60)
    plain = federation(x, y)
    tables = [plain[0], *(replace(table, unaligned=table.columns) for table in plain[1:])]
    method = cn.OneShot(learn="gradients", learner="trees(iterations=20, rate=0.3, leaves=31, least_rows=1, ridge=0)")

    def scores(first: int) -> np.ndarray:
        planted = torch.from_numpy(np.random.default_rng(3).integers(0, 2, 60))
        planted[0] = first
        monkeypatch.setattr(oneshot, "clusters_of", lambda *_: planted)
        return cn.train(tables, replace(method, top="linear")).owner.replies["party 2"].numpy()

    one, other = scores(0), scores(1)
    assert one[0] == other[0] and (one[1:] != other[1:]).any()


def test_noisy_labels_are_sent_and_the_true_ones_are_kept(
    pair: tuple[list[cn.Table], list[cn.Table]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from colonnade.methods import oneshot

    sent = []
    inner = oneshot.labels_received
    monkeypatch.setattr(
        oneshot,
        "labels_received",
        lambda *how: sent.append(inner(*how)) or sent[-1],  # type: ignore[func-returns-value]
    )
    run = cn.train(pair[0], QUICK, seal=cn.RandomLabels(2.0), runtime="loop")
    truth = pair[0][0].labels[run.schedule.batch_of(0)]
    agree = float((sent[0] == truth).float().mean())
    assert agree == pytest.approx(1 / (1 + np.exp(-2.0)), abs=0.04), "randomised response at epsilon 2"
    assert all(torch.equal(one, sent[0]) for one in sent), "drawn once: no mean over parties tells more"
    assert torch.equal(run.owner.own_labels(cn.Turn(0, run.schedule.batch_of(0))), truth)
    assert run.evaluate(pair[1])["auc"] > 0.75


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.97, 0.03), (0.6, 0.3, 0.1)])
@pytest.mark.parametrize("correct", ["posterior", "unbiased", "none"])
def test_the_noisy_label_is_found_in_its_soft_target(shares: tuple[float, ...], correct: str) -> None:
    labels = torch.multinomial(torch.tensor(shares), 4000, replacement=True, generator=torch.Generator().manual_seed(0))
    key = bytes(32)
    soft = cn.RandomLabels(1.0, correct=correct).protect(labels, len(shares), key)
    values = soft.unique(dim=0)
    assert len(values) == len(shares)
    found = hard(soft, protected=True)
    assert all(len(found[(soft == value).all(1)].unique()) == 1 for value in values)
    assert len(found.unique()) == len(shares), "every noisy label is another class"


@pytest.mark.parametrize("learn", ["pca", "autoencoder"])
def test_no_label_leaves(learn: str, pair: tuple[list[cn.Table], list[cn.Table]]) -> None:
    method = cn.OneShot(learn=learn, embedding=3, epochs=3, top=TREES)
    assert method.tells_labels == "unsent"
    train, test = pair
    other = [replace(train[0], labels=1 - train[0].labels), *train[1:]]
    first, second = (cn.train(tables, method) for tables in (train, other))
    assert not [line for line in first.ledger.rows if line.sender == "owner"]
    for k in (1, 2):
        states = [run.model.states()[f"party-{k:03d}"] for run in (first, second)]
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0]), "other labels, same messages"
    assert first.evaluate(test)["auc"] > 0.6


def test_rows_of_ones_own_are_learnt_from() -> None:
    x, y = rows(400)
    more = np.concatenate([rows(400, seed=k)[0] for k in range(2, 6)])
    plain = federation(x, y)
    wide = [plain[0], *(replace(table, unaligned=more[:, 3:7]) for table in plain[1:])]
    method = cn.OneShot(learn="pca", embedding=2, top="linear")
    states = [cn.train(tables, method).model.states()["party-001"]["memory/directions"] for tables in (plain, wide)]
    assert not torch.equal(*states)


def test_gradients_find_classes(pair: tuple[list[cn.Table], list[cn.Table]]) -> None:
    method = cn.OneShot(learn="gradients", embedding=3, learner=TREES, top=TREES)
    run = cn.train(pair[0], method)
    assert run.round == 1 and run.evaluate(pair[1])["auc"] > 0.85
    few = cn.train(pair[0], method, rounds=2)
    assert few.round == 2 and few.ledger.bytes_for("train") > run.ledger.bytes_for("train")


def test_a_party_that_is_absent_is_a_missing_value(pair: tuple[list[cn.Table], list[cn.Table]], run: cn.Run) -> None:
    test, names = pair[1], [table.name for table in pair[1]]
    everybody, without = run.evaluate(test)["auc"], run.evaluate(test, absent=names[1:2], missing="zero")["auc"]
    nobody = run.evaluate(test, absent=names[1:], missing="zero")["auc"]
    assert everybody > without > nobody > 0.5


def test_rows_that_a_party_lacks_are_missing_values() -> None:
    x, y = rows()
    tables = federation(x, y)
    known = np.random.default_rng(0).random(1200) < 0.5
    lacking = [tables[0], replace(tables[1], known=known), tables[2]]
    run = cn.train(lacking, QUICK)
    test = federation(*rows(600, seed=1))
    assert run.evaluate(test)["auc"] > 0.8
    scrambled = replace(
        tables[1], columns=torch.where(torch.tensor(known)[:, None], tables[1].columns, 99.0), known=known
    )
    other = cn.train([tables[0], scrambled, tables[2]], QUICK)
    assert torch.equal(run.predict(test), other.predict(test)), "what a party does not know has no influence"


def test_a_run_is_opened_again_with_its_trees(tmp_path: Path, pair: tuple[list[cn.Table], list[cn.Table]]) -> None:
    run = cn.train(pair[0], QUICK, folder=tmp_path / "run")
    opened = cn.resume(tmp_path / "run", train=False)
    assert torch.equal(opened.predict(pair[1]), run.predict(pair[1]))
    assert not list((tmp_path / "run").rglob("*.pkl"))


def test_scores_beyond_their_range_are_refused_by_name(
    pair: tuple[list[cn.Table], list[cn.Table]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from colonnade.methods import party_fits

    monkeypatch.setattr(party_fits, "as_scores", lambda o, task: as_scores(o, task) * 1e6)
    with pytest.raises(MessageError, match=r"'.+' sent the score .*e\+0\d; scores lie within 1000"):
        cn.train(pair[0], QUICK)


def test_too_few_rows_for_the_folds_are_refused_before_training() -> None:
    with pytest.raises(ConfigError, match="oneshot: 8 rows are too few for folds=5"):
        cn.train(federation(*rows(8)), QUICK)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learn": "magic"}, "unknown learn of oneshot 'magic'"),
        ({"learner": "orchard"}, "unknown learner 'orchard'"),
        ({"top": "trees(iterations=9999999)"}, "out of range"),
        ({"folds": 1}, "folds are 2 to 100"),
    ],
)
def test_options_that_cannot_be_are_one_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cn.OneShot(**options)  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_values_have_no_clusters_and_no_label_seal() -> None:
    x, _ = rows(200)
    tables = federation(x, x[:, 3] * 2.5)
    with pytest.raises(ConfigError, match="learn='labels'"):
        cn.train(tables, cn.OneShot(learn="gradients"))
    with pytest.raises(cn.ColonnadeError, match="protects class numbers, and task='values' has none"):
        cn.train(tables, QUICK, seal=cn.RandomLabels(2.0))
