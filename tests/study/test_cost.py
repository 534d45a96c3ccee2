"""What a job will cost over a line: traces, replayed, against whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import ConfigError
from colonnade.federation.protocol import WORDS as OF_THE_PROTOCOL
from colonnade.run.apart_setup import make_party, remote_setup_for
from colonnade.run.make_plan import start
from colonnade.study.cost.estimate import WORDS, BeforeTraining, CostEstimate
from colonnade.study.cost.link import NONE, Link, link_of
from colonnade.study.cost.request_trace import Asked, Computed, Heard, TimedTransport, Trace
from colonnade.study.cost.timed_rounds import CostPart, timed_parts
from plans import plan_for

SLOW = Link(8.0, 100.0)  # a byte takes a microsecond


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("100mbit,50ms", Link(100, 50)),
        ("2.5 Mbit, 0.1s", Link(2.5, 100)),
        ("1gbit,0ms", Link(1000, 0)),
        ("64kbit,600ms", Link(0.064, 600)),
    ],
)
def test_a_link_is_a_rate_and_a_round_trip(text: str, link: Link) -> None:
    assert link_of(text) == link


@pytest.mark.parametrize("text", ["", "100mbit", "50ms,100mbit", "100,50", "fast,50ms", "100mbit,50ms,1", "-1mbit,5ms"])
def test_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 100mbit,50ms"):
        link_of(text)


@pytest.mark.parametrize("text", ["0mbit,50ms", "10mbit,90s", "9999gbit,1ms"])
def test_a_rate_or_a_trip_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="out of range"):
        link_of(text)


def test_parties_compute_at_the_same_time_and_share_the_line() -> None:
    trace = Trace(
        [
            Computed(1.0),
            Asked("a", 100_000, 5.0, 200_000),
            Asked("b", 100_000, 2.0, 300_000),
            Heard("a"),
            Heard("b"),
            Computed(0.5),
        ]
    )
    assert trace.trips == 1 and trace.down == 200_000 and trace.up == 500_000
    assert trace.seconds_over(NONE) == 1 + 5 + 0.5
    assert trace.seconds_over(SLOW) == pytest.approx(1 + 0.1 + 0.05 + 5 + 0.2 + 0.05 + 0.5), "b is heard meanwhile"


def test_parties_asked_one_after_the_other_take_a_trip_each() -> None:
    trace = Trace([Asked("a", 0, 0.0, 0), Heard("a"), Computed(0.0), Asked("b", 0, 0.0, 0), Heard("b")])
    assert trace.trips == 2 and trace.seconds_over(SLOW) == pytest.approx(0.2)


def test_parts_add_up() -> None:
    part = CostPart("rounds", 10, [Trace([Computed(0.5), Asked("a", 1000, 0.5, 1000), Heard("a")])])
    estimate = CostEstimate(10, BeforeTraining(1), [part])
    cost = estimate.training_over(SLOW)
    assert (cost.computing, cost.trips, cost.transfer) == pytest.approx((10.0, 1.0, 0.02))
    assert cost.seconds == pytest.approx(part.seconds_over(SLOW))
    assert estimate.over(SLOW).trips == pytest.approx(1.0 + estimate.before.trips * 0.1)
    assert len(OF_THE_PROTOCOL) == WORDS


JOBS = {
    "splitnn": {"valid": 0.2, "evaluate_every": 4},
    "vimadmm-j": {"seal": [cn.Blind(), cn.Bits(4)]},
    "vimadmm": {"evaluate_every": 100},
    "multivfl": {"method": cn.MultiVFL(every=3)},
}


@pytest.mark.parametrize("method", JOBS)
def test_trips_and_bytes_are_those_of_the_whole_run(method: str, tmp_path: Path) -> None:
    train, test = cn.load("digits", parties=3, rows=300)
    how = dict(JOBS[method])
    plan = plan_for(train, how.pop("method", method), rounds=11, batch=100, **how)
    whole = whole_run(plan, train, test, tmp_path)
    parts = timed_parts(plan, train, test)
    words_about_states = 100  # a checkpoint names those before it that are needed, and the first has none
    assert sum(part.down for part in parts) == pytest.approx(whole.down, abs=words_about_states)
    assert sum(part.up for part in parts) == whole.up
    assert abs(sum(part.trips for part in parts) - whole.trips) <= 1, "the last message may go with an evaluation"


def whole_run(plan, train, test, folder: Path) -> Trace:
    """All requests and replies of a run in which every party is apart."""
    apart, transports = replace(plan, settings=replace(plan.settings, runtime="apart")), []
    setup = remote_setup_for(train, apart, folder)

    def connect(specs):
        transports.append(TimedTransport({spec.name: make_party(spec) for spec in specs}))
        return transports[0]

    run = start(apart, train, folder, replace(setup, connect=connect))
    with transports[0].tracing() as trace:
        run.fit(test)
    return trace


def test_several_owners_are_refused() -> None:
    train, _ = cn.load("digits", parties=3, rows=200)
    shared = cn.share(train, owners=2)
    with pytest.raises(ConfigError, match="2 owners"):
        timed_parts(plan_for(shared, "multivfl", rounds=2), shared)
