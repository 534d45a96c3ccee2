"""What a party refuses to sign: each rule of [allow], each claim of terms and plan that it works out by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from colonnade.core.table import Table
from colonnade.errors import ManifestError, MessageError
from colonnade.federation.allow_list import check_allowed, check_pinned
from colonnade.federation.plan_check import check_plan, check_prediction_plan
from colonnade.federation.side_sections import AllowSection
from colonnade.federation.terms import keys_in, learns, terms_of
from near import Sides, make_sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

NOISE = '[[seal]]\nkind = "noise"\nsigma = 10.0\nepsilon = 8.0\ndelta = 1e-6'
BLIND = '[[seal]]\nkind = "blind"'
Terms = dict[str, Any]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    return Sides(make_sides(tmp_path_factory.mktemp("sides"), rows=24))


@pytest.fixture(scope="module")
def terms_with(sides: Sides) -> Callable[[str], Terms]:
    """Terms of the bank, the shop and the mill, under seals."""
    known = {seals: terms_of(sides.owner_file(more=seals)) for seals in ("", NOISE, BLIND)}
    return lambda seals: dict(known[seals])


def allowed(terms: Terms, peers: tuple[str, ...] = ("mill",), **allow: Any) -> None:
    """Let the shop check the terms; it knows its own key, that of the owner they name, and those of its peers."""
    keys = keys_in(terms)
    check_allowed(
        terms, "shop", AllowSection(**allow), keys[terms["owner"]], {name: keys[name] for name in ("shop", *peers)}
    )


# The terms


@pytest.mark.parametrize("seals", ["", NOISE, BLIND])
def test_what_nothing_speaks_against_is_allowed(seals: str, terms_with: Callable[[str], Terms]) -> None:
    allowed(terms_with(seals), mix=1)
    allowed(terms_with(NOISE), methods=["splitnn"], seals=["noise"], needs=["noise"], rounds=2, epsilon=8.0)


RULES: list[tuple[str, dict[str, Any], str]] = [
    ("", {"methods": ["fdml"]}, r"method.name 'splitnn', and 'shop' allows \['fdml'\]"),
    ("", {"needs": ["noise"]}, "the terms have no seal 'noise', which 'shop' needs"),
    (NOISE, {"seals": ["blind"]}, r"seals 'noise', and 'shop' allows \['blind'\]"),
    ("", {"rounds": 1}, "train.rounds 2, and 'shop' allows at most 1"),
    ("", {"align": ["plain"]}, r"align.mode 'psi', and 'shop' allows \['plain'\]"),
    ("", {"minimum": 5}, "align.minimum 1, and 'shop' allows at least 5"),
    ("", {"maximum": 9}, "align.maximum None, and 'shop' allows at most 9"),
    ("", {"epsilon": 1.0}, "seals.noise.epsilon 'no noise', and 'shop' allows at most 1"),
    (NOISE, {"epsilon": 7.5}, "seals.noise.epsilon 8.0, and 'shop' allows at most 7.5"),
    (NOISE, {"epsilon": 8.0, "delta": 1e-7}, "seals.noise.delta 1e-06, and 'shop' allows at most 1e-07"),
    (BLIND, {"mix": 2}, r"parties '1 beside us in a blinded sum', and 'shop' allows at least 2 \(mix\)"),
]


@pytest.mark.parametrize(("seals", "allow", "sentence"), RULES)
def test_each_rule_names_its_field(
    seals: str, allow: dict[str, Any], sentence: str, terms_with: Callable[[str], Terms]
) -> None:
    with pytest.raises(ManifestError, match=sentence):
        allowed(terms_with(seals), **allow)


def with_key_of(terms: Terms, name: str, other: str) -> Terms:
    keys = {side["name"]: side["key"] for side in terms["parties"]}
    return {
        **terms,
        "parties": [{**side, "key": keys[other]} if side["name"] == name else side for side in terms["parties"]],
    }


CHANGES: list[tuple[Callable[[Terms], Terms], str]] = [
    (lambda terms: {**terms, "colonnade": "0.0"}, "the terms have colonnade '0.0' and this side"),
    (lambda terms: {**terms, "protocol": "x"}, "the terms have protocol 'x' and this side"),
    (lambda terms: {**terms, "owner": "mill"}, "the owner 'mill' and the parties bank, shop, mill; it is first"),
    (lambda terms: {**terms, "parties": [*terms["parties"], terms["parties"][2]]}, "a party or a key twice"),
    (lambda terms: with_key_of(terms, "mill", "shop"), "a party or a key twice"),
    (lambda terms: {**terms, "learns": ["Nobody learns anything."]}, "the terms gloss over what they do, in learns"),
    (lambda terms: {**terms, "labels": "unsent"}, "the terms gloss over what they do, in labels"),
]


@pytest.mark.parametrize(("change", "sentence"), CHANGES)
def test_terms_that_are_not_what_they_say(
    change: Callable[[Terms], Terms], sentence: str, terms_with: Callable[[str], Terms]
) -> None:
    with pytest.raises(ManifestError, match=sentence):
        allowed(change(terms_with("")))


def test_another_owner_or_another_peer_than_is_known(terms_with: Callable[[str], Terms]) -> None:
    terms = terms_with("")
    keys, allow = keys_in(terms), AllowSection()
    with pytest.raises(ManifestError, match="'farm' is not among the parties of the terms, bank, shop, mill"):
        check_allowed(terms, "farm", allow, keys["bank"], {})
    with pytest.raises(ManifestError, match="another key of 'bank' than 'shop' knows"):
        check_allowed(terms, "shop", allow, bytes(32), {"shop": keys["shop"]})
    with pytest.raises(ManifestError, match="another key of 'mill' than 'shop' knows"):
        check_allowed(terms, "shop", allow, keys["bank"], {"shop": keys["shop"], "mill": bytes(32)})
    with pytest.raises(ManifestError, match="no party 'farm', which"):
        check_allowed(terms, "shop", allow, keys["bank"], {"shop": keys["shop"], "farm": bytes(32)})


def test_a_promise_that_rests_on_others_needs_their_keys(terms_with: Callable[[str], Terms]) -> None:
    allowed(terms_with(""), peers=())
    with pytest.raises(ManifestError, match="the seal 'blind', and an owner that invents a party"):
        allowed(terms_with(BLIND), peers=(), mix=1)
    least = terms_with("")
    least["align"] = {**least["align"], "minimum": 10}
    least["learns"] = learns(least)
    with pytest.raises(ManifestError, match=r"align.minimum 10, and an owner that invents a party can compare ids"):
        allowed(least, peers=())
    allowed(least)


def test_only_the_terms_that_the_operator_has_read(terms_with: Callable[[str], Terms]) -> None:
    terms = terms_with("")
    check_pinned(terms, "shop", None)
    check_pinned(terms, "shop", terms)
    other = {**terms, "train": {**terms["train"], "rounds": 3}}
    with pytest.raises(ManifestError, match=r"not those that \[allow\] of 'shop' names, in train.rounds \(2 here"):
        check_pinned(other, "shop", terms)
    check_pinned({**other, "predict": {}}, "shop", terms)  # a prediction is held to the terms of its training


# The plan


class Planned(NamedTuple):
    plan: dict[str, Any]
    terms: Terms
    own: Table


@pytest.fixture(scope="module")
def planned(sides: Sides) -> Planned:
    """A plan that everybody signed, and the shop's own rows."""
    host = sides.host()
    host.gather()
    host.session.with_all(host._ready)
    plan, tables = host.session.handshake.plan, sides.guests["shop"].handshake._tables
    host.close()
    sides.restart()
    assert tables is not None
    return Planned(plan, host.terms, tables[0])


def test_the_plan_that_follows_is_signed(planned: Planned) -> None:
    check_plan(planned.plan, planned.terms, "shop", planned.own, AllowSection())


def test_more_numbers_than_columns_hide_are_warned_of(planned: Planned, caplog: pytest.LogCaptureFixture) -> None:
    check_plan(planned.plan, planned.terms, "shop", planned.own, AllowSection())
    assert "'shop' is to send" in caplog.text and "has 3 columns" in caplog.text
    caplog.clear()
    check_plan(planned.plan, planned.terms, "shop", planned.own, AllowSection(width_per_column=100.0))
    assert "is to send" not in caplog.text, "the operator has decided"


PLANS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"rows": 5}, "the plan has 19 rows, and 'shop' allows 5"),
    ({}, {"rounds": 1}, "the plan has 2 rounds, and 'shop' allows 1"),
    ({}, {"outputs": 1}, "the plan has 2 outputs, and 'shop' allows 1"),
    ({}, {"networks": ["cnn"]}, "mlp"),
    ({}, {"layers": 9}, "layers"),
    ({}, {"width": 1}, "width"),
    ({}, {"width_per_column": 0.1}, "for 3 columns it allows 0.3; make the embedding narrower"),
    ({"terms": "00" * 32}, {}, "does not follow from the terms that were signed, in terms"),
    ({"schema": {}}, {}, "does not follow from the terms that were signed, in schema"),
    ({"optimizer": []}, {}, "the plan has 0 entries in optimizer for 3 parties"),
    ({"tables": [["bank", 19, [3]], ["mill", 19, [3]], ["shop", 19, [3]]]}, {}, "not of the parties bank, shop, mill"),
    ({"tables": [["bank", 19, [3]], ["shop", 21, [3]], ["mill", 19, [3]]]}, {}, r"says \[21, \[3\]\] of the rows"),
    ({"tables": [["bank", 18, [3]], ["shop", 19, [3]], ["mill", 19, [3]]]}, {}, r"says 18 rows of \[3\] of 'bank'"),
]


@pytest.mark.parametrize(("changes", "allow", "sentence"), PLANS)
def test_a_plan_that_does_not_follow_or_is_too_much(
    changes: dict[str, Any], allow: dict[str, Any], sentence: str, planned: Planned
) -> None:
    with pytest.raises(ManifestError, match=sentence):
        check_plan({**planned.plan, **changes}, planned.terms, "shop", planned.own, AllowSection(**allow))


def test_a_plan_without_form_is_no_plan(planned: Planned) -> None:
    with pytest.raises(MessageError, match="the plan came with outputs"):
        check_plan({**planned.plan, "outputs": -1}, planned.terms, "shop", planned.own, AllowSection())


def test_a_prediction_has_the_plan_of_its_training(planned: Planned) -> None:
    plan = {**planned.plan, "terms": "11" * 32, "test": 0, "predict": 7}
    check_prediction_plan(plan, planned.plan, "shop", 7, AllowSection(rows=7))
    with pytest.raises(ManifestError, match="the plan has 7 rows, 'shop' allows 6"):
        check_prediction_plan(plan, planned.plan, "shop", 7, AllowSection(rows=6))
    with pytest.raises(ManifestError, match=r"not that of the training, in predict \(8 here, 7 at the owner\)"):
        check_prediction_plan(plan, planned.plan, "shop", 8, AllowSection())
    with pytest.raises(ManifestError, match="not that of the training, in outputs"):
        check_prediction_plan({**plan, "outputs": 9}, planned.plan, "shop", 7, AllowSection())
