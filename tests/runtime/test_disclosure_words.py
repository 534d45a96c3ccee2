"""Sentences about messages: all that is declared is said, and seals are named if they lower something."""

import pytest

import colonnade as cn
from colonnade.core.disclosure import with_all_choices
from colonnade.runtime.disclosure_words import (
    Situation,
    about_labels,
    classes_of,
    in_a_cell,
    in_short,
    sentence,
    sentences,
)

EVERY = [method for cls in cn.methods().values() for method in with_all_choices(cls)]


@pytest.mark.parametrize("method", EVERY, ids=lambda method: f"{method.name}-{method.tells_labels}")
def test_every_declaration_is_one_sentence(method: cn.Method) -> None:
    told = method.disclosures
    assert told is not None
    for classes in (None, 0, 2, 10):
        said = sentences(method, Situation(classes))
        assert len(said) == len(told) + (method.tells_labels == "unsent")
        assert all(line.endswith(".") and line.count(". ") == 0 and "{" not in line for line in said)


def test_what_must_be_known_for_a_level_is_said_where_it_is_not_lowered() -> None:
    def about(*seals: str) -> str:
        return sentences(cn.SplitNN(), Situation(10, seals))[1]

    read = "Every party can read the labels of the rows (read) from gradients in step 'follow', given one known label"
    assert about().startswith(read) and about("bits").startswith(read)
    assert "given" not in about("random-labels")


def test_gradients_of_two_classes_and_of_more() -> None:
    message = cn.Disclosure("follow", "down", "labels", "leaks", two_classes="read")
    said = [sentence(message, Situation(classes), "gradients") for classes in (2, 10, None)]
    assert said[0].startswith("Every party can read the labels of the rows (read) from gradients in step 'follow'")
    assert said[1].startswith("Every party can infer a good part of the labels of the rows (leaks) from gradients")
    assert "(leaks), of two classes nearly all of them (read), from gradients" in said[2]


def test_a_seal_is_named_if_it_lowers_a_level_and_those_that_would_if_none_does() -> None:
    open_, sealed = (sentences(cn.FDML(), Situation(10, seals))[1] for seals in ((), ("random-labels", "bits")))
    assert open_.endswith("; the seal 'random-labels' or 'laplace-labels' would lower that.")
    assert "noisy labels of the rows only (leaks)" in sealed
    assert sealed.endswith("; without the seal 'random-labels' the level is read.")


def test_what_nothing_lowers_says_so() -> None:
    assert any(line.endswith("; no seal lowers that.") for line in sentences(cn.APFed(), Situation(2)))


def test_under_blind_the_message_is_a_sum_where_only_sums_are_asked_for() -> None:
    fixed, learnt = (sentences(cn.VAFL(learn_weights=flag), Situation(2, ("blind",)))[0] for flag in (False, True))
    assert "(read) from the sum of all parties' embeddings" in fixed
    assert "sum" not in learnt


def test_an_owner_of_other_labels_is_called_one() -> None:
    said = sentences(cn.MultiVFL(), Situation(2))
    assert any(line.startswith("Another owner gets hints at the labels of the rows (hints)") for line in said)


def test_a_method_that_declares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cn.SplitNN, "disclosures", None)
    assert sentences(cn.SplitNN(), Situation()) == [in_short(cn.SplitNN(), Situation())]
    assert "not declared" in in_short(cn.SplitNN(), Situation(2, ("random-labels",)))
    assert "not declared" in about_labels(cn.SplitNN())
    assert in_a_cell(cn.SplitNN, "labels") == in_a_cell(cn.SplitNN, "columns") == "not declared"


def test_in_short_is_the_worst_of_all_messages() -> None:
    assert in_short(cn.Local(), Situation(2)) == "Nothing that depends on labels goes to any party."
    assert in_short(cn.FDML(), Situation(10)) == (
        "A curious party can read the labels of the rows (read). "
        "Whoever receives most can rebuild a part of another side's columns (leaks)."
    )
    assert "(leaks)" in in_short(cn.APFed(), Situation(10)).split(". ")[0]


def test_how_many_classes_there_are() -> None:
    found = classes_of("classes", 3), classes_of("values", 1), classes_of("several", 4), classes_of(None, None)
    assert found == (3, 0, 2, None)
