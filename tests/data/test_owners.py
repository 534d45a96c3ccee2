"""Several owners: sharing labels, what a federation with several must look like, rows of a round, and who predicts."""

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.core.schedule import SharedSchedule
from colonnade.core.table import check_federation, owners_of
from colonnade.data.sharing import all_labels, places_of
from colonnade.errors import AwayError, ColonnadeError, ConfigError, TableError
from colonnade.methods.several import SeveralOwners

ROWS, CLASSES = 60, 3


def federation() -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 8)).astype(np.float32)
    y = (x @ rng.normal(size=(8, CLASSES))).argmax(1)
    return cn.split(x, y, 4, ids=[f"row {k:02d}" for k in rng.permutation(ROWS)])


# sharing


@pytest.mark.parametrize("how", [{}, {"sizes": [1, 2, 3]}, {"alpha": 0.5}], ids=["even", "sizes", "alpha"])
def test_every_row_has_one_owner_and_keeps_its_label(how: dict[str, Any]) -> None:
    tables = federation()
    shared = cn.share(tables, 3, **how)
    check_federation(shared, several=True)
    assert [table.name for table in owners_of(shared)] == ["owner 1", "owner 2", "owner 3"]
    assert shared[3:] == tables[1:] or all(a is b for a, b in zip(shared[3:], tables[1:], strict=True))
    assert torch.equal(torch.cat(places_of(shared)).sort().values, torch.arange(ROWS))
    assert torch.equal(all_labels(shared), tables[0].labels)
    for one, again in zip(shared[:3], cn.share(tables, 3, **how), strict=False):
        assert np.array_equal(one.ids, again.ids), "the same seed shares alike"


def test_rows_are_even_or_as_asked() -> None:
    assert [table.rows for table in cn.share(federation(), 4)[:4]] == [15] * 4
    assert [table.rows for table in cn.share(federation(), 3, sizes=[0.5, 0.25, 0.25])[:3]] == [30, 15, 15]
    other = cn.share(federation(), 4, seed=1)[0]
    assert not np.array_equal(other.ids, cn.share(federation(), 4)[0].ids)


def test_a_small_alpha_shares_classes_unevenly() -> None:
    train, _ = cn.load("digits", parties=2)

    def spread(alpha: float) -> float:
        shared = cn.share(train, 4, alpha=alpha)
        counts = np.array([np.bincount(table.labels, minlength=10) for table in shared[:4]])
        return float((counts / counts.sum(0)).max(0).mean())

    assert spread(100.0) < 0.4 < 0.6 < spread(0.1)


def test_one_owner_is_the_federation_itself() -> None:
    tables = federation()
    assert all(a is b for a, b in zip(cn.share(tables, 1), tables, strict=True))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"owners": 0}, "owners=0 is out of range"),
        ({"owners": 61}, "60 rows have 1 to 60 owners"),
        ({"owners": 2, "sizes": [1, 0]}, "one positive number per owner"),
        ({"owners": 2, "sizes": [1, 1, 1]}, "came for 2 owners"),
        ({"owners": 2, "sizes": [1, 1000]}, "so that each has one"),
        ({"owners": 2, "sizes": [1, 1], "alpha": 1.0}, "both given"),
        ({"owners": 2, "alpha": 0.0}, "alpha=0.0 is out of range"),
        ({"owners": 40, "alpha": 0.001}, "take a larger one"),
    ],
)
def test_what_cannot_be_shared_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        cn.share(federation(), **how)


def test_an_owner_with_columns_cannot_share() -> None:
    x = np.zeros((4, 4))
    with pytest.raises(TableError, match="split with owner='labels'"):
        cn.share(cn.split(x, [0, 1, 0, 1], 2, owner="first"), 2)


# what is refused


def spoilt(how: str) -> list[cn.Table]:
    first, second, *parties = cn.share(federation(), 2)
    match how:
        case "twice":
            return [first, replace(second, ids=np.concatenate([first.ids[:3], second.ids[3:]])), *parties]
        case "nobody":
            return [first, second.take(range(second.rows - 2)), *parties]
        case "strange":
            more = cn.Table([*second.ids, "nobody"], labels=[*second.labels, 0], name=second.name)
            return [first, more, *parties]
        case "columns":
            return [first, replace(second, columns=np.zeros((second.rows, 1))), *parties]
        case "no parties":
            return [first, second]
        case "order":
            return [first, *parties, second]
        case "other rows":
            return [first, second, parties[0], parties[1].take(range(5))]
        case "names":
            return [first, replace(second, name=first.name), *parties]
    raise AssertionError(how)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("twice", "3 rows have two owners, such as 'row "),
        ("nobody", "2 rows have no owner, such as 'row "),
        ("strange", "labels of 1 rows that no party has, such as 'nobody'"),
        ("columns", "'owner 2' is one of 2 owners and has columns"),
        ("no parties", "no table has columns"),
        ("order", "table 'owner 2' has labels too"),
        ("other rows", "has 5 rows, that of 'party 1' has 60"),
        ("names", "two tables have the same name"),
    ],
)
def test_rows_that_are_not_shared_among_the_owners_are_refused(how: str, words: str) -> None:
    with pytest.raises(TableError, match=re.escape(words)):
        cn.train(spoilt(how), "multivfl", rounds=1, batch=4)


def test_an_owner_without_rows_is_refused() -> None:
    with pytest.raises(TableError, match="'owner 3' is empty"):
        cn.Table([], labels=[], name="owner 3")


def test_classes_of_one_owner_only_work_and_warn() -> None:
    tables = federation()
    alone = (tables[0].labels == 2).numpy()
    shared = [
        replace(tables[0].take(alone), name="owner 1"),
        replace(tables[0].take(~alone), name="owner 2"),
        *tables[1:],
    ]
    with pytest.warns(UserWarning, match="classes 0, 1, 2 are seen by one owner only"):
        run = cn.train(shared, "multivfl", rounds=2, batch=4)
    assert run.predict(tables).shape == (ROWS, CLASSES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cn.train(cn.share(tables, 2), "multivfl", rounds=1, batch=4)
        cn.train(tables, "multivfl", rounds=1, batch=4)


def test_methods_of_one_owner_say_so() -> None:
    with pytest.raises(TableError, match=r"splitnn has one owner, but 2 tables have labels.*fedoptimus, multivfl"):
        cn.train(cn.share(federation(), 2), "splitnn", rounds=1, batch=4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"share": 0.0}, "share=0.0 of the parties selects nobody"),
        ({"share": 1.5}, "share=1.5 of the parties selects nobody, or more than there are"),
        ({"neighbours": 4}, "neighbours=4 were asked for among 4 rows; give more rows"),
        ({"every": 5, "select_every": 12}, "no multiple of every=5"),
        ({"mu": 1.0}, "mu=1.0"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"eta": -1.0}, "eta=-1.0"),
        ({"server": "fedavg+fast"}, "fast"),
        ({"optimizer": "lion"}, "lion"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        cn.train(cn.share(federation(), 2), cn.FedOptimus(**options), rounds=1, batch=4)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="preset"):
        cn.FedOptimus.preset("cs+everything")


# rows of a round


def test_owners_go_through_their_own_rows_in_equal_batches() -> None:
    places = (torch.arange(0, 10), torch.arange(10, 13), torch.arange(13, 21))
    schedule = SharedSchedule(places, batch=4, seed=5)
    rounds = torch.stack([schedule.batch_of(r) for r in range(6)])
    assert rounds.shape == (6, 3, 4) and schedule.rounds_per_epoch == 2
    assert set(rounds[:3, 0].flatten().tolist()) == set(range(10)), "three batches visit all ten rows"
    assert all(len(set(batch.tolist())) == 4 for batch in rounds[:, 0]), "no row twice in a batch"
    assert all(set(batch.tolist()) == {0, 1, 2} for batch in rounds[:, 1]), "few rows are repeated"
    assert sorted(rounds[:2, 2].flatten().tolist()) == list(range(8))
    assert torch.equal(SharedSchedule(places, batch=4, seed=5).batch_of(4), rounds[4])
    assert not torch.equal(rounds[:2, 2] % 8, rounds[:2, 0] % 8), "each owner has an order of its own"


def test_owners_hold_rows_of_their_own_out() -> None:
    places = (torch.arange(0, 10), torch.arange(10, 30))
    schedule = SharedSchedule(places, batch=2, valid=0.2)
    held = schedule.held_out
    assert [len(rows) for rows in held] == [2, 4] and torch.equal(schedule.valid_rows, torch.cat(held))
    assert int(held[0].max()) < 10 <= int(held[1].min())
    trained = {int(places[k][row]) for r in range(50) for k, own in enumerate(schedule.batch_of(r)) for row in own}
    assert trained == set(range(30)) - set(schedule.valid_rows.tolist())
    with pytest.raises(ConfigError, match="leaves owner 2 of 2 no row to train on"):
        SharedSchedule((torch.arange(9), torch.arange(9, 10)), batch=2, valid=0.6)


# training and predicting


def trained(method: cn.Method, owners: int = 3, **more: Any) -> cn.Run:
    tables = cn.share(federation(), owners) if owners > 1 else federation()
    return cn.train(tables, method, **{"rounds": 12, "batch": 8, **more})


def test_owners_are_stacked_too() -> None:
    owners = trained(cn.MultiVFL()).owner.owners
    assert owners is not None and [site.members for site in owners.backend.grouping.groups] == [[0, 1, 2]]


def test_any_owner_predicts() -> None:
    run = trained(cn.MultiVFL(every=5))
    each = [run.predict(federation(), owner=f"owner {k}") for k in (1, 2, 3)]
    assert torch.equal(run.predict(federation()), each[0])
    assert not torch.allclose(each[0], each[1], atol=1e-4), "two rounds after an average their models differ"
    sent = {(line.sender, line.receiver) for line in run.ledger.rows if line.purpose == "predict"}
    assert sent == {(f"party {k}", f"owner {m}") for k in range(1, 5) for m in range(1, 4)}
    assert run.evaluate(federation(), owner="owner 2")["accuracy"] == pytest.approx(
        float((each[1].argmax(1) == federation()[0].labels).float().mean())
    )
    with pytest.raises(ColonnadeError, match="owner 4"):
        run.predict(federation(), owner="owner 4")


def test_after_an_average_all_owners_predict_alike() -> None:
    run = trained(cn.MultiVFL(every=4))
    torch.testing.assert_close(run.predict(federation()), run.predict(federation(), owner="owner 3"))


def test_validation_is_each_owner_on_its_own_rows() -> None:
    run = trained(cn.MultiVFL(every=5), valid=0.2)
    labels, found = federation()[0].labels, []
    for k, rows in enumerate(run.schedule.held_out):
        found += (run.predict(federation(), owner=f"owner {k + 1}").argmax(1) == labels)[rows].tolist()
    assert run.history[-1]["valid_accuracy"] == pytest.approx(np.mean(found)) and len(found) == 12


def averaging(run: cn.Run) -> int:
    return sum(run.ledger.by_step[step] for step in ("top", "adopt"))


def test_averaging_every_five_rounds_takes_a_fifth_of_the_bytes() -> None:
    each = [trained(cn.MultiVFL(every=every), rounds=20) for every in (1, 5)]
    assert averaging(each[0]) == 5 * averaging(each[1])
    assert [run.ledger.by_step["embed"] for run in each] == [each[0].ledger.by_step["embed"]] * 2
    weights = 4 * (4 * 60 * 60 + 60 + 60 * CLASSES + CLASSES)
    between = [line for line in each[1].ledger.rows if line.step in ("top", "adopt")]
    assert {(line.sender, line.receiver) for line in between} == {
        (a, b) for k in (2, 3) for a, b in ((f"owner {k}", "owner 1"), ("owner 1", f"owner {k}"))
    }
    assert all(line.payload == 4 * weights and line.messages == 4 for line in between)


def test_the_ledger_says_who_spoke_with_whom() -> None:
    run = trained(cn.MultiVFL(every=3), rounds=3)
    pairs = {(line.step, line.sender[:5], line.receiver[:5]) for line in run.ledger.rows}
    assert pairs == {
        ("embed", "party", "owner"),
        ("follow", "owner", "party"),
        ("top", "owner", "owner"),
        ("adopt", "owner", "owner"),
    }
    assert set(run.ledger.by_party) == {f"party {k}" for k in range(1, 5)} | {"owner 2", "owner 3"}
    assert sum(run.ledger.by_party.values()) == run.ledger.total


def test_one_owner_needs_no_averaging_messages() -> None:
    run = trained(cn.MultiVFL(every=1), owners=1)
    assert set(run.ledger.by_step) == {"embed", "follow"} and run.ledger.owners == ["owner"]


def test_few_bits_and_noisy_labels_work() -> None:
    plain = trained(cn.MultiVFL(), runtime="bytes")
    few = trained(cn.MultiVFL(), runtime="bytes", seal=[cn.Bits(8), cn.RandomLabels(epsilon=3.0)])
    assert few.ledger.by_step["embed"] < plain.ledger.by_step["embed"] / 2
    assert few.ledger.by_step["adopt"] == plain.ledger.by_step["adopt"], "weights are not numbers per row"
    assert few.owner.owners is not None and plain.owner.soft is None
    for single, place in zip(few.owner.owners.singles, few.owner.owners.places, strict=True):
        assert torch.equal(single.soft, few.owner.soft[place])
    noisy = trained(cn.MultiVFL(every=3), seal=cn.Noise(epsilon=100.0))
    assert set(noisy.privacy) == {f"party {k}" for k in range(1, 5)} and "top" in noisy.ledger.by_step
    with pytest.raises(ColonnadeError, match="cannot be blinded"):
        trained(cn.MultiVFL(), seal=cn.Blind())


def test_a_party_that_is_absent_counts_as_zeros() -> None:
    run = trained(cn.MultiVFL())
    found = run.predict(federation(), absent=["party 2"], missing="zero", owner="owner 2")
    assert found.shape == (ROWS, CLASSES) and run.took_part == ["party 1", "party 3", "party 4"]
    with pytest.raises(AwayError, match="missing='zero'"):
        run.predict(federation(), absent=["party 2"])
    mean = run.predict(federation(), absent=["party 2"], missing="mean", owner="owner 2")
    assert not torch.allclose(mean, found)
    assert {f"owner {k}/party 2/embed/h" for k in (1, 2, 3)} <= set(run.model.half.memory.means), "each its own mean"


def test_a_federation_with_several_owners_is_not_predicted() -> None:
    with pytest.raises(TableError, match="'owner 2' has labels too"):
        trained(cn.MultiVFL()).predict(cn.share(federation(), 2))


@pytest.mark.parametrize("method", [cn.MultiVFL(), cn.FedOptimus()], ids=["multivfl", "fedoptimus"])
def test_it_learns(method: SeveralOwners) -> None:
    rows, test = cn.load("digits", parties=4, owners=3, alpha=0.5)
    run = cn.train(rows, replace(method, lr=0.005), rounds=150, batch=64)
    assert run.evaluate(test)["accuracy"] > 0.85
