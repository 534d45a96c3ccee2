"""``cn.select`` over a federation: who is chosen, who learns what, what is counted, what is refused."""

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.errors import ConfigError, MessageError, SealError, TableError
from colonnade.selection.distances import Distances, Ranks, Steps
from colonnade.wire.owner_half import OwnerHalf
from colonnade.wire.party_half import PartyHalf

COPIES = {"copy of 3": "party 3", "copy of 6": "party 6"}
SMALL = {"queries": 40, "rows": 150}


def digits(seed=0, owner="labels"):
    """Eight real parties, two of noise, two near-copies."""
    tables, _ = cn.load("digits", parties=8, owner=owner)
    rng = np.random.default_rng(seed)
    pixels = {table.name: table.draw(torch.arange(table.rows)).flatten(1).numpy() for table in tables[1:]}
    shape = pixels["party 3"].shape
    more = {f"noise {k}": rng.normal(0, 0.3, shape) for k in (1, 2)}
    more |= {name: pixels[original] + rng.normal(0, 0.1, shape) for name, original in COPIES.items()}
    plain = cn.Scale(unit=1.0)
    return [*tables, *(cn.Table(tables[0].ids, columns, name=name, scale=plain) for name, columns in more.items())]


def small(owner="labels", rows=200, parties=4):
    """Parties of two columns; the label is in the first three parties' columns, the last has noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, rows)
    columns = rng.normal(size=(rows, 2 * parties)).astype(np.float32)
    columns[:, : 2 * parties - 2] += 2 * labels[:, None] * rng.integers(0, 2, 2 * parties - 2)
    return cn.split(columns, labels, parties, owner=owner)


@pytest.fixture
def travelled(monkeypatch):
    """Everything that travels: (sender, receiver, step, tensors)."""
    seen = []
    carry = OwnerHalf.count

    def spy(self, fields, sender, receiver, step, *rest):
        seen.append((sender, receiver, step, {name: tensor.clone() for name, tensor in fields.items()}))
        return carry(self, fields, sender, receiver, step, *rest)

    monkeypatch.setattr(OwnerHalf, "count", spy)
    return seen


# who is chosen


@pytest.mark.parametrize("seal", [None, cn.Blind()], ids=["open", "blinded"])
def test_a_third_of_the_parties_has_the_information_of_all(seal):
    selection = cn.select(digits(), share=1 / 3, seal=seal)
    assert len(selection.chosen) == 4 and selection.reached >= 0.99
    assert not any(name.startswith("noise") for name in selection.chosen)
    assert not any({copy, original} <= set(selection.chosen) for copy, original in COPIES.items())
    assert selection.seconds <= 5
    assert {name for name, note in selection.notes.items() if note.startswith("noise")} == {"noise 1", "noise 2"}
    assert {name for name, note in selection.notes.items() if note.startswith("copy of")} == set(COPIES)


def test_greedy_chooses_fewer_rather_than_copies_and_noise():
    selection = cn.select(digits(), count=12, **SMALL | {"rows": 400, "queries": 200})
    assert set(selection.chosen).isdisjoint({"noise 1", "noise 2"})
    assert not any({copy, original} <= set(selection.chosen) for copy, original in COPIES.items())


def test_what_the_owner_has_anyway_counts_and_its_copy_is_not_chosen():
    tables = small(owner="first")
    again = cn.Table(tables[0].ids, tables[0].columns, name="again")
    for seal in (None, cn.Blind()):
        selection = cn.select([*tables, again], count=3, seal=seal)
        assert selection.notes["again"] == "copy of owner: it adds nothing to it"
        assert "again" not in selection.chosen and tables[0].name not in selection.scores
        assert selection.tables[0].columns is not None


@pytest.mark.parametrize("by", ["groups", "fagin", "single", "random"])
def test_other_ways_choose_exactly_as_many(by):
    found = cn.select(small(), count=2, by=by, tests=20, **SMALL)
    assert len(found.chosen) == 2 and len(found.tables) == 3
    assert found.by == by and found.evaluations >= 1
    assert (found.touched is not None) == (by == "fagin")
    if by != "random":
        assert "party 4" not in found.chosen


@pytest.mark.parametrize("owner", ["labels", "first"])
@pytest.mark.parametrize("by", ["greedy", "groups", "fagin", "single", "random"])
def test_blinding_changes_nothing_but_who_knows(by, owner):
    options = {"count": 2, "by": by, "tests": 8, **SMALL}
    plain = cn.select(small(owner), **options)
    blinded = cn.select(small(owner), seal=cn.Blind(), **options)
    assert (blinded.chosen, blinded.notes) == (plain.chosen, plain.notes)
    assert blinded.scores == plain.scores and blinded.information == pytest.approx(plain.information, abs=1e-6)
    assert blinded.of_all == pytest.approx(plain.of_all, abs=1e-6)


def test_fagin_adds_up_less_and_finds_the_same():
    options = {"count": 2, "tests": 6, "seal": cn.Blind(), **SMALL}
    full, some = (cn.select(small(), by=by, **options) for by in ("groups", "fagin"))
    assert some.chosen == full.chosen and some.information == full.information
    assert 0 < some.touched < 1
    assert some.ledger.by_step["some"] < full.ledger.by_step["stretched"]
    assert "hints at how pure" in str(some) and "hints at how pure" not in str(full)


def test_selections_follow_from_the_seed():
    first, same = (cn.select(small(), seed=5, seal=cn.Blind(), **SMALL) for _ in range(2))
    assert first.chosen == same.chosen and first.information == same.information
    assert first.ledger.to_json() == same.ledger.to_json()
    other = cn.select(small(), seed=6, **SMALL)
    assert other.information != first.information


def test_units_of_columns_do_not_matter():
    tables = small()
    huge = [tables[0], *(cn.Table(t.ids, t.columns * 1000.0, name=t.name) for t in tables[1:])]
    assert cn.select(huge, **SMALL).chosen == cn.select(tables, **SMALL).chosen


# training with the chosen


def test_the_chosen_are_a_federation_to_train_with_and_to_resume(tmp_path):
    train, test = cn.load("digits", parties=4, rows=300)
    selection = cn.select(train, share=0.5, **SMALL)
    kept = cn.keep(test, selection)
    assert [t.name for t in kept[1:]] == sorted(selection.chosen) == [t.name for t in selection.tables[1:]]
    options = {"rounds": 2, "batch": 100}
    run = cn.train(selection.tables, "vafl", test=kept, folder=tmp_path / "run", **options)
    again = cn.resume(tmp_path / "run", rounds=4)
    assert again.parties.names == run.parties.names
    whole = cn.train(train, "vafl", **options)
    assert run.ledger.bytes_for("train") * 2 == whole.ledger.bytes_for("train"), (
        "half of the parties, half of the bytes"
    )


def test_heads_of_a_trained_run_choose_too():
    train, _ = cn.load("digits", parties=4, rows=300)
    run = cn.train(train, "vimadmm-j", rounds=3, batch=100)
    run.importance()
    found = cn.select(train, share=0.5, by="heads", run=run)
    norms = run.importance()
    assert list(found.chosen) == sorted(norms, key=norms.get, reverse=True)[:2]
    assert found.information is None and found.reached is None and "head" in found.opened[0]
    assert found.ledger.by_purpose == {"explain": found.bytes}
    assert found.bytes * 3 == run.ledger.bytes_for("explain")
    with pytest.raises(ConfigError, match="vafl has no head per party"):
        cn.select(train, by="heads", run=cn.train(train, "vafl", rounds=1))
    with pytest.raises(ConfigError, match="by='heads' reads the heads of a trained model; give run="):
        cn.select(train, by="heads")
    with pytest.raises(TableError, match="the run was trained with"):
        cn.select(small(parties=3), by="heads", run=run)
    with pytest.raises(ConfigError, match="run= came with by='greedy'"):
        cn.select(train, run=run)


# who learns what


def test_everything_is_counted_apart_from_training():
    for seal, purposes in ((None, {"select"}), (cn.Blind(), {"select", "setup"})):
        selection = cn.select(small(), seal=seal, **SMALL)
        assert set(selection.ledger.by_purpose) == purposes
        assert selection.bytes == selection.ledger.total == sum(selection.ledger.by_purpose.values())


def test_without_a_seal_every_party_sends_its_distances_once(travelled):
    selection = cn.select(small(), **SMALL)
    assert [(s, r, step) for s, r, step, _ in travelled] == [(f"party {k}", "owner", "distances") for k in range(1, 5)]
    assert all(f"party {k}" in selection.opened[0] for k in range(1, 5))


@pytest.mark.parametrize("owner", ["labels", "first"])
@pytest.mark.parametrize("by", ["greedy", "fagin"])
def test_under_blind_sums_go_to_the_helper_and_orders_to_the_owner(by, owner, travelled):
    selection = cn.select(small(owner), by=by, tests=5, seal=cn.Blind(), helper="clerk", **SMALL)
    parties = {table.name for table in small(owner)[1:]}
    holders = parties | ({"owner"} if owner == "first" else set())
    for sender, receiver, step, fields in travelled:
        kinds = {tensor.dtype for tensor in fields.values()}
        if step in ("stretched", "some"):
            assert sender in holders and receiver == "clerk", "distances go to the helper, masked"
        elif step == "order":
            assert receiver == "owner" and sender in parties | {"clerk"} and kinds == {torch.int16}
        elif step == "remember":
            assert sender == "owner" and receiver in parties, "the helper never has the key"
        elif step == "want":
            assert sender == "owner" and receiver in parties | {"clerk"} and kinds == {torch.uint8}
        else:
            assert step in ("hello", "confirm") and "clerk" in (sender, receiver)
    assert {"clerk"} == {receiver for _, receiver, step, _ in travelled if step in ("stretched", "some")}
    assert any("clerk" in sentence and "no label" in sentence for sentence in selection.opened)


def test_the_owner_reads_no_distance_and_the_helper_no_label_and_no_row(travelled, monkeypatch):
    """What the helper opens is recorded: stretched, shuffled, and the same rows never in the same order."""
    opened = []
    total = OwnerHalf.open_sum

    def spy(self, *rest):
        found = total(self, *rest)
        opened.append(found.squared)
        return found

    monkeypatch.setattr(OwnerHalf, "open_sum", spy)
    tables = small()
    labels = tables[0].labels
    selection = cn.select(tables, count=3, seal=cn.Blind(), **SMALL)
    assert len(opened) == selection.evaluations > 3
    to_owner = [fields for _, receiver, _, fields in travelled if receiver == "owner"]
    assert all(tensor.dtype == torch.int16 for fields in to_owner for tensor in fields.values())
    to_helper = [fields for _, receiver, step, fields in travelled if receiver == "helper" and step == "stretched"]
    for fields in to_helper:
        for tensor in fields.values():
            assert not any(torch.equal(tensor.flatten()[: len(labels)], part) for part in (labels, labels.float()))
            assert len(tensor.flatten()) < 2 or tensor.dtype == torch.uint8 or not tensor.is_floating_point()
    sums = [torch.cat([total.sum(1).sort().values]) for total in opened]
    assert all(not torch.allclose(one, two) for k, one in enumerate(sums) for two in sums[:k])


def test_masked_messages_look_like_noise_and_differ_every_time(travelled):
    cn.select(small(), count=3, seal=cn.Blind(), **SMALL)
    sent = [fields for sender, _, step, fields in travelled if step == "stretched" and sender == "party 1"]
    raw = [next(t for name, t in fields.items() if name == "squared" or t.numel() > 1000) for fields in sent]
    for one in raw:
        counts = torch.bincount(one.contiguous().view(torch.uint8).flatten().long(), minlength=256).double()
        expected = counts.sum() / 256
        assert float(((counts - expected) ** 2 / expected).sum() / 255) < 1.5
    assert all(not torch.equal(one, two) for k, one in enumerate(raw) for two in raw[:k])


def test_sums_of_two_groups_cannot_be_subtracted_as_they_stand(travelled, monkeypatch):
    """With one order and one unit for all sums, the difference of two would be parties' own distances."""
    cn.select(small(), **SMALL)
    own = [fields["squared"] for _, _, step, fields in travelled if step == "distances"]
    opened = []
    total = OwnerHalf.open_sum
    monkeypatch.setattr(OwnerHalf, "open_sum", lambda *rest: opened.append(total(*rest)) or opened[-1])
    cn.select(small(), count=3, seal=cn.Blind(), **SMALL)
    one, two, *_ = (found.squared for found in opened)
    known = torch.stack([own[a] - own[b] for a in range(4) for b in range(4) if a != b] + own).flatten(1)
    alike = torch.corrcoef(torch.cat([(one - two).flatten()[None], known]))[0, 1:]
    assert float(alike.abs().max()) < 0.2


# what is refused


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (
            {"share": 0.0},
            ConfigError,
            r"share=0.0 of the parties selects nobody, or more than there are; give a number",
        ),
        ({"share": 1.5}, ConfigError, "selects nobody, or more"),
        ({"count": 0}, ConfigError, "count=0 of 4 parties selects nobody, or more than there are; give 1 to 4"),
        ({"count": 5}, ConfigError, "count=5 of 4 parties"),
        ({"count": 1.5}, ConfigError, "count=1.5 is not a whole number"),
        ({"count": 1, "share": 0.5}, ConfigError, "were both given; give one"),
        ({"neighbours": 30, "rows": 30}, ConfigError, "neighbours=30 were asked for among 30 rows; give more rows"),
        ({"rows": 4000}, ConfigError, "rows=4000 is out of range; give a whole number from 1 to 2000"),
        ({"by": "gredy"}, ConfigError, "unknown way to select 'gredy'; did you mean 'greedy'"),
        ({"tests": 0, "by": "groups"}, ConfigError, "tests=0 is out of range"),
        ({"seal": cn.Bits(4)}, SealError, r"takes one cn.Blind\(\) and no other seal"),
        ({"helper": "clerk"}, ConfigError, r"add seal=cn.Blind\(\)"),
        ({"seal": cn.Blind(), "helper": "party 2"}, ConfigError, "could tell which rows it opens; name one that has"),
        ({"seal": cn.Blind(), "helper": "owner"}, ConfigError, "could tell which rows it opens"),
        ({"seal": cn.Blind(), "helper": ""}, ConfigError, "helper='' cannot travel"),
    ],
)
def test_bad_requests_are_told_in_one_sentence(options, error, told):
    with pytest.raises(error, match=told) as caught:
        cn.select(small(), **options)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_nobody_to_select_is_told():
    alone = small(owner="first")[:1]
    with pytest.raises(TableError, match="there is no party beside the owner"):
        cn.select(alone)
    with pytest.raises(SealError, match="one party has columns, and the sum of one party is its value"):
        cn.select(small()[:2], seal=cn.Blind())
    with pytest.raises(TableError, match="there is no party 'bank' to keep; the federation has owner, party 1"):
        cn.keep(small(), ["bank"])


def lies(change):
    honest = Steps.distances

    def distances(self, mine, turn):
        answer = honest(self, mine, turn)
        return change(answer) if mine.members == [1] else answer

    return cn.party_step(distances)


@pytest.mark.parametrize("seal", [None, cn.Blind()], ids=["open", "blinded"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda answer: Distances(answer.squared[:, :-1]), "party 2.*shape"),
        (lambda answer: Distances(answer.squared - 1e6), "party 2.* answered a squared distance of -.*none is below 0"),
    ],
    ids=["too few", "negative"],
)
def test_a_party_that_answers_wrongly_is_named(change, told, seal, monkeypatch):
    monkeypatch.setattr(Steps, "distances", lies(change))
    with pytest.raises((MessageError, SealError), match=told):
        cn.select(small(), seal=seal, **SMALL)


def test_a_helper_that_answers_wrongly_is_named(monkeypatch):
    honest = PartyHalf.say

    def lie(self, reply, *rest):
        return honest(self, Ranks(reply.nearer + 500) if self.name == "helper" else reply, *rest)

    monkeypatch.setattr(PartyHalf, "say", lie)
    with pytest.raises(MessageError, match=r"helper .* answered ranks from 500 to"):
        cn.select(small(), seal=cn.Blind(), **SMALL)
