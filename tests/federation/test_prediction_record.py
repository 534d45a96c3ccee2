"""A prediction between organisations is recorded by whoever records, in a view of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import views
from colonnade.federation.prediction import Prediction
from colonnade.federation.view_check import check_view
from near import PARTIES, RECORD, Near, Sides, lead, make_sides


def test_every_side_records_what_it_sent_for_new_rows(tmp_path: Path) -> None:
    sides = Sides(make_sides(tmp_path))
    how = {"allow": "runs = 9", "more": f'[predict]\nfiles = "table.csv"\n{RECORD}'}
    sides.write_parties(**how)
    lead(sides.host(more=RECORD))
    trained = check_view(sides.folder / "run-bank")
    sides.restart()
    listener: Any = Near({name: sides.guests.setdefault(name, sides.guest(name)) for name in PARTIES}, {})
    files = [str(sides.folder / "bank" / "table.csv")]
    host = Prediction(sides.owner_file(more=RECORD), sides.folder / "run-bank", files, listener=listener)
    try:
        host.gather()
        assert len(host.score().ids) == 40
    finally:
        host.close()
    ours = check_view(host.folder)
    assert {(one.purpose, one.table) for one in ours.seen} == {("predict", "predict")}
    assert {one.sender for one in ours.seen} == set(PARTIES) and all(len(one.rows) == 40 for one in ours.seen)
    for name in PARTIES:
        (place,) = (sides.folder / f"run-{name}").glob("*/predictions/*")
        mine = check_view(place).seen
        for one, other in zip(mine, [one for one in ours.seen if one.sender == name], strict=True):
            views.check_same_message(one, other)
    again = check_view(sides.folder / "run-bank")
    assert len(again.seen) == len(trained.seen) and "predict" not in {one.purpose for one in again.seen}
