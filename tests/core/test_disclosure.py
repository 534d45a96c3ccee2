"""What messages show: levels with classes and under seals, the one word about labels, methods that say nothing."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import pytest
from torch import Tensor

import colonnade as cn
from colonnade.core.disclosure import LEVELS, declared, label_word, with_all_choices, worst_label_word
from colonnade.errors import ColonnadeError

BEFORE = {  # of version 0.1, method by method: job files and terms have these words
    "aggvfl": "shown", "apfed": "inferable", "cvfl": "shown", "fdml": "shown", "fedbcd": "inferable",
    "fedoptimus": "inferable", "gal": "shown", "laser": "inferable", "local": "unsent", "multivfl": "inferable",
    "oneshot": "shown", "splitnn": "inferable", "tvfl": "inferable", "vafl": "inferable", "vfedmh": "shown",
    "vimadmm": "shown", "vimadmm-j": "shown", "vimsgd": "inferable",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Silent(cn.Method):
    """A method of somebody's own that declares nothing."""

    name: ClassVar[str] = "silent"

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        raise NotImplementedError

    def predict(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        raise NotImplementedError


def test_the_words_of_all_methods_are_what_they_were() -> None:
    assert {name: method().tells_labels for name, method in cn.methods().items()} == BEFORE


def test_the_words_follow_options() -> None:
    assert cn.FedBCD(combine="sum").tells_labels == "shown" == worst_label_word(cn.FedBCD)
    words = [cn.OneShot(learn=way).tells_labels for way in ("labels", "pca", "autoencoder", "gradients")]
    assert words == ["shown", "unsent", "unsent", "inferable"]
    assert worst_label_word(cn.OneShot) == "shown" and worst_label_word(cn.SplitNN) == "inferable"


def test_two_classes_may_be_worse_than_more() -> None:
    one = cn.Disclosure("follow", "down", "labels", "leaks", two_classes="read")
    assert (one.at(2), one.at(10), one.at(0)) == ("read", "leaks", "leaks")
    assert one.at() == "read", "the worst, if nobody says how many classes there are"


def test_gradients_of_embeddings_are_read_by_whoever_knows_a_label_of_each_class() -> None:
    assert declared(cn.SplitNN(), "labels", classes=2) == declared(cn.SplitNN(), "labels", classes=10) == "read"
    assert [one.given.split()[0] for one in cn.SplitNN().disclosures or () if one.secret == "labels"] == ["one"]
    assert cn.SplitNN().tells_labels == "inferable", "only what can be read with nothing given is shown"
    assert cn.SplitNN(party_rounds=0).tells_labels == "unsent"


@pytest.mark.parametrize("seal", ["random-labels", "laplace-labels"])
def test_a_label_seal_lowers_labels_and_nothing_else(seal: str) -> None:
    for method in (cn.SplitNN(), cn.VIMADMM(), cn.OneShot()):
        assert declared(method, "labels", classes=2, seals=[seal]) == "leaks"
        assert declared(method, "columns", seals=[seal]) == declared(method, "columns")


@pytest.mark.parametrize("name", cn.methods())
def test_few_bits_lower_nothing(name: str) -> None:
    for method, secret in itertools.product(with_all_choices(cn.methods()[name]), ("labels", "columns")):
        assert declared(method, secret, classes=2, seals=["bits", "topk"]) == declared(method, secret, classes=2)


def test_blinding_does_not_lower_sums_of_embeddings_and_noise_does() -> None:
    for method in (cn.VAFL(learn_weights=False), cn.VFedMH()):
        up = {"step": "embed", "way": "up"}
        assert declared(method, "columns", seals=["blind"], **up) == "read"
        assert declared(method, "columns", seals=["noise"], **up) == "leaks"


def test_levels_can_be_asked_of_one_step_and_one_way() -> None:
    assert declared(cn.APFed(), "columns", step="assist", way="up") == "read"
    assert declared(cn.APFed(), "columns", step="assist", way="down") == "read"
    assert declared(cn.APFed(), "columns", step="assist") == "read"
    assert declared(cn.SplitNN(), "labels", step="embed") == "nothing known"
    assert declared(cn.SplitNN(), "labels", step="invented") == "not declared"
    with pytest.raises(ColonnadeError, match="unknown secret 'ids'"):
        declared(cn.SplitNN(), "ids")


def test_a_method_that_declares_nothing_is_taken_for_the_worst() -> None:
    silent = Silent()
    assert silent.disclosures is None and silent.tells_labels == "shown"
    assert declared(silent, "labels", seals=["random-labels"]) == declared(silent, "columns") == "not declared"


def test_the_old_way_to_declare_labels_still_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"Old\.labels is the old way"):

        @dataclass(frozen=True, kw_only=True)
        class Old(Silent):
            labels: ClassVar[str] = "inferable"

    assert Old().tells_labels == worst_label_word(Old) == "inferable"
    assert label_word(Old()) == "shown" and declared(Old(), "labels") == "not declared"


@pytest.mark.parametrize(
    "wrong", [{"way": "sideways"}, {"secret": "ids"}, {"level": "some"}, {"two_classes": "hints"}, {"level": ""}]
)
def test_a_wrong_declaration_is_refused(wrong: dict[str, str]) -> None:
    given = {"step": "follow", "way": "down", "secret": "labels", "level": "leaks"}
    with pytest.raises(ColonnadeError, match="disclosure of 'follow'"):
        cn.Disclosure(**{**given, **wrong})


def test_every_level_has_its_place() -> None:
    assert LEVELS == ("nothing known", "hints", "leaks", "read")
    seals = ("noise",)
    under = [cn.Disclosure("s", "up", "columns", level, stopped_by=seals).at(seals=seals) for level in LEVELS]
    assert under == ["nothing known", "hints", "leaks", "leaks"], "no seal is known to bring a leak to nothing"
