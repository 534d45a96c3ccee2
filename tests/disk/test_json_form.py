"""The form of plain data from a file, and the first place where it is another."""

from __future__ import annotations

from typing import Any

import pytest

from colonnade.disk.json_form import ANYTHING, COUNT, FLAG, NUMBER, TEXT, first_wrong

FORM = {"name": TEXT, "rounds": COUNT, "losses": [(NUMBER, None)], "parties": {"*": {"rows": COUNT}}, "stopped?": FLAG}
GOOD: dict[str, Any] = {"name": "a", "rounds": 3, "losses": [0.5, None, 2], "parties": {"bank": {"rows": 7}}, "x": 1}


def test_what_fits() -> None:
    assert first_wrong(GOOD, FORM) is None
    assert first_wrong(GOOD | {"stopped": True, "parties": {}, "losses": []}, FORM) is None
    assert first_wrong(object(), ANYTHING) is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": 3}, "name is 3 where a text is expected"),
        ({"rounds": -1}, "rounds is -1 where a whole number from 0 is expected"),
        ({"rounds": True}, "rounds is True where a whole number from 0"),
        ({"rounds": 2**63}, "rounds is 9223372036854775808 where"),
        ({"losses": {}}, "losses is {} where a list is expected"),
        ({"losses": [1, "2"]}, "losses[1] is '2' where a number is expected"),
        ({"losses": [True]}, "losses[0] is True where a number"),
        ({"parties": {"bank": {}}}, "parties.bank.rows is None where something is expected"),
        ({"parties": {"bank": {"rows": 1.0}}}, "parties.bank.rows is 1.0 where a whole number"),
        ({"parties": []}, "parties is [] where a table is expected"),
        ({"stopped": 1}, "stopped is 1 where true or false is expected"),
    ],
)
def test_the_first_wrong_place_is_named(changed: dict[str, Any], told: str) -> None:
    assert told in str(first_wrong(GOOD | changed, FORM))


def test_what_is_missing_is_named_and_long_values_are_cut() -> None:
    assert "rounds is None" in str(first_wrong({name: GOOD[name] for name in GOOD if name != "rounds"}, FORM))
    assert len(str(first_wrong({**GOOD, "rounds": "9" * 10_000}, FORM))) < 200
