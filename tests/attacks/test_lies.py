"""A party with valid keys that lies in what it says beside its messages: the owner stops, and says who and what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.lies import (
    LIAR,
    WRONG_FACTS,
    WRONG_LETTERS,
    WRONG_NUMBERS,
    WRONG_SHAPES,
    WRONG_TENSORS,
    Court,
    Place,
    judged,
    lies_about,
)

from colonnade.core.optim import make_optimizer
from colonnade.core.table import Table
from colonnade.errors import ConfigError, MessageError
from colonnade.federation.answer_forms import ANSWERS, checked_answer
from colonnade.federation.network_sizes import check_networks
from colonnade.methods import make_method
from colonnade.models import MLP
from colonnade.runtime.remote.reply_numbers import BudgetReports, KeptStates
from colonnade.seal.noise import Noise

KEEP, SPENT = Place("keep", "", "", "kept"), Place("spent", "", "", "spent")
TOLD: list[tuple[str, Place, str, Callable[[Any], Any]]] = [
    *(("plain", KEEP, name, lie) for name, lie in WRONG_NUMBERS.items()),
    ("plain", Place("talk", "prepare", "", "rows"), "null", WRONG_FACTS["null"]),
    ("plain", Place("talk", "prepare", "", "shape"), "10^7 numbers", WRONG_SHAPES["10^7 numbers"]),
    ("plain", Place("talk", "prepare", "", "cardinalities"), "10^7", lambda true: [10**7]),
    ("plain", Place("talk", "hello", "", "name"), "a wrong text", WRONG_FACTS["a wrong text"]),
    ("plain", Place("step", "give", "align", "whose"), "left out", WRONG_TENSORS["left out"]),
    ("plain", Place("step", "lock", "align", "locks"), "left out", WRONG_TENSORS["left out"]),
    ("plain", Place("talk", "plan", "", ""), "another job", WRONG_LETTERS["another job"]),
    *(
        ("plain", Place("end", "", "", ""), name, WRONG_LETTERS[name])
        for name in ("another job", "a refusal of nothing")
    ),
    *(("noise", SPENT, name, lie) for name, lie in WRONG_NUMBERS.items()),
]


@pytest.fixture(scope="module")
def courts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Court]:
    torch.set_num_threads(1)
    return {case: Court(tmp_path_factory.mktemp("court") / "files", case) for case in ("plain", "noise")}


@pytest.mark.parametrize("case", ["plain", "noise"])
def test_the_truth_is_believed(courts: dict[str, Court], case: str) -> None:
    """The control: a run in which nobody lies ends well."""
    assert courts[case].run(lambda request, reply: reply) == ""


@pytest.mark.parametrize("told", TOLD, ids=[f"{one[1]}: {one[2]}" for one in TOLD])
def test_a_lie_is_refused_by_name_and_field(courts: dict[str, Court], told: Any) -> None:
    case, place, _, lie = told
    said = courts[case].tell(place, lie)
    assert judged(place, said) == "refused", said


def test_no_lie_is_the_truth() -> None:
    """An empty list without its last row is the same list: the owner believes that, and is right."""
    place, none = Place("blind", "logits: o", "reveal", "key_who"), torch.zeros(0, dtype=torch.int16)
    lies = lies_about(place, none)
    assert "nothing" not in lies and len(lies["a row more"](none)) == 1
    assert WRONG_TENSORS.keys() == lies_about(place, torch.ones(2, dtype=torch.int16)).keys()
    assert "null" not in lies_about(Place("talk", "hello", "", "name"), None)


@pytest.mark.parametrize("word", ANSWERS)
def test_every_word_has_exact_answers(word: str) -> None:
    with pytest.raises(MessageError, match=f"'{LIAR}' to '{word}' has besides 'more'"):
        checked_answer(LIAR, word, {**dict.fromkeys(ANSWERS[word], ""), "more": 1})
    for field in ANSWERS[word]:
        for lie in WRONG_FACTS.values():
            said: dict[str, Any] = dict.fromkeys(ANSWERS[word], None) | {field: lie("0")}
            with pytest.raises(MessageError, match=f"'{LIAR}'") as caught:
                checked_answer(LIAR, word, said)
            assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


def test_networks_are_counted_before_memory_is_taken_for_them() -> None:
    """Rows of 250,000 numbers and a wide network: gigabytes, said in a moment and by name."""
    table = Table(torch.arange(3).numpy(), torch.zeros(1, 250_000).expand(3, 250_000), name=LIAR)
    method, how = make_method("splitnn"), make_optimizer("sgd", lr=0.1)
    check_networks([table], method, [MLP(hidden=(64,))], [how], 2)
    with pytest.raises(ConfigError, match=f"'{LIAR}' would have 250,.* parameters"):
        check_networks([table], method, [MLP(hidden=(1000,))], [how], 2)


def test_kept_numbers_follow_each_other() -> None:
    kept = KeptStates(LIAR)

    def heard(number: int, session: bytes = b"a session") -> int:
        kept.hear({"kept": torch.tensor([number])}, session)
        assert kept.newest is not None
        return int(kept.newest)

    kept.ask()
    assert heard(7) == 7  # an owner that knows none begins there
    assert kept.ask().tolist() == [7]
    assert heard(8) == 8
    kept.ask()
    for false in (8, 7, 10, 2**40):
        with pytest.raises(MessageError, match=f"'{LIAR}' kept a state and called it 'kept' = {false}; 9 was due"):
            heard(false)
        assert int(kept.newest or 0) == 8
    for _ in range(2):
        kept.ask()  # one answer goes unheard, because another party went away
    assert heard(10) == 10
    kept.newest = torch.tensor([8])  # which is what the checkpoint says to an owner that died
    assert heard(12, b"another") == 12


def test_budgets_follow_from_their_releases() -> None:
    own, budgets = Noise(epsilon=8.0).budget(LIAR), BudgetReports(LIAR)
    for _ in range(3):
        own.spend(torch.arange(4), "train")
    found = own.summary()
    told = {key: float(found[key]) for key in ("granted", "delta", "spent", "releases", "allowed")}
    told["messages.train"] = 3.0

    def check(**false: float) -> dict[str, Any]:
        fields = {key: torch.tensor([value], dtype=torch.float64) for key, value in (told | false).items()}
        return budgets.check(fields, own)

    assert check()["releases"] == 3
    for name, value in {
        "granted": 80.0, "delta": 0.5, "spent": 0.1, "releases": 2.0, "allowed": 10**6, "messages.train": 1.0,
        "messages.steal": 1.0, "more": 1.0,
    }.items():  # fmt: skip
        with pytest.raises(MessageError, match=f"'{LIAR}' told of its budget") as caught:
            check(**{name: value})
        assert name in str(caught.value) or name == "releases"


def test_courts_are_made_of_real_parts(courts: dict[str, Court]) -> None:
    said = courts["plain"].said()
    words = {place.step for place in said if place.kind == "talk"}
    assert set(ANSWERS) - {"end"} <= words and KEEP in said and Path(courts["plain"].folder).is_dir()
