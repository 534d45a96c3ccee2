"""What a line of the ledger means: which values the messages held, which seals were on them, what could be learnt."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from colonnade.core.disclosure import UNDECLARED, Disclosure
from colonnade.report.summary import RunView
from colonnade.run.map_step import SHOWS, embedding_map
from colonnade.runtime.disclosure_words import ON_GRADIENTS, sentence
from colonnade.runtime.schema import kinds_of
from colonnade.runtime.step_words import VALUES
from colonnade.wire.ledger import Line

OF_NO_METHOD = {"embedding_map": embedding_map}  # steps that the parties of any method take
ROWS_FOR = {"train": "training rows", "evaluate": "rows of the evaluation", "predict": "rows of the prediction"}
_SCALE = 16  # bytes; a smaller message to a blinded party holds only the scale of the sum


def values_in(run: RunView, line: Line) -> str:
    """Which kinds of values the messages hold."""
    if line.purpose == "setup":
        return "keys and signatures"
    if line.purpose == "align":
        return "masked ids (hashes of ids in plain mode), places in lists of them, signatures"
    if ": " in line.step:
        return "shares of keys, to open a sum without those who went away"
    if _only_a_scale(run, line):
        return "the scale of the sum"
    fields = _fields(run, line)
    if fields:
        return ", ".join(dict.fromkeys(VALUES[name] for name in fields))
    method = run.known_method
    if method is None:
        return "not known"
    return method.owner_sends if run.is_owner(line.sender) else method.party_sends


def seals_on(run: RunView, line: Line) -> list[str]:
    """The seals that these messages went through, in their order."""
    if line.purpose in ("setup", "align") or ": " in line.step or _only_a_scale(run, line):
        return []
    by_owner, kinds = run.is_owner(line.sender), []
    for entry in run.seals:
        kind, ways = entry.get("kind", ""), entry.get("ways", "both")
        few = kind in ("bits", "topk") and line.purpose == "train" and ways in ("both", "down" if by_owner else "up")
        noise = kind == "noise" and not by_owner
        labels = kind.endswith("-labels") and by_owner and line.purpose == "train"
        gradients = kind in ON_GRADIENTS and by_owner and line.purpose == "train"
        if few or noise or labels or gradients or (kind == "blind" and is_blinded(run, line)):
            kinds.append(kind)
    order = ["noise", "bits", "topk", "blind"]
    return sorted(kinds, key=lambda kind: order.index(kind) if kind in order else -1)


def is_blinded(run: RunView, line: Line) -> bool:
    """Whether the owner read these messages only as a sum, as the ledger says."""
    return line.summed is True and _may_be_blinded(run, line)


def _may_be_blinded(run: RunView, line: Line) -> bool:
    """Whether these are messages that Blind covers if the owner asks for their sum."""
    return run.sealed("blind") and not run.is_owner(line.sender) and line.purpose in ROWS_FOR


def could_learn(run: RunView, line: Line) -> str:
    """What a curious receiver could read from these messages, in one sentence."""
    if line.purpose == "align":
        return "Which ids all parties have, and how many each has; in plain mode any id that it can guess."
    if line.purpose == "setup" or ": " in line.step:
        return "Nothing about any row; the parties make their masks of it."
    if _only_a_scale(run, line):
        return "How far the parties' values reach together."
    if run.known_method is None:
        return "Not known: the method is not known here."
    return _receiver_learns(run, line)


def _declared(run: RunView, line: Line) -> tuple[Disclosure, ...]:
    """What is declared of the messages of a line."""
    if line.step in OF_NO_METHOD:
        told: tuple[Disclosure, ...] | None = SHOWS
    else:
        told = None if run.chosen_method is None else run.chosen_method.disclosures
    down = run.is_owner(line.sender) and not (line.step in _owner_steps(run) and line.sender != run.owners[0])
    return tuple(one for one in told or () if (one.step, one.way) == (line.step, "down" if down else "up"))


def _owner_steps(run: RunView) -> Collection[str]:
    return () if run.known_method is None else run.known_method.owner_steps()


def _receiver_learns(run: RunView, line: Line) -> str:
    told = _declared(run, line)
    if not told:
        undeclared = run.chosen_method is not None and run.chosen_method.disclosures is None
        return f"What it shows is {UNDECLARED}." if undeclared else "Which rows are asked about."
    said = " ".join(sentence(one, run.situation, who="It") for one in told)
    if is_blinded(run, line):
        said = f"Only the sum over all parties, never one party's own values. {said}"
    elif line.summed is None and _may_be_blinded(run, line):
        said += " Or only the sum over all parties: the ledger is too old to say which."
    return said


def _only_a_scale(run: RunView, line: Line) -> bool:
    return run.sealed("blind") and run.is_owner(line.sender) and line.payload <= _SCALE * line.messages


def _fields(run: RunView, line: Line) -> list[str]:
    """The fields of the line's message that :data:`VALUES` has words for, fields made of labels first."""
    message = _message(run, line)
    return [name for name in VALUES if name in getattr(message, "_fields", ())]


def _message(run: RunView, line: Line) -> Any:
    method = run.known_method
    steps = OF_NO_METHOD | ({} if method is None else method.steps() | method.owner_steps())
    if line.step not in steps:
        return None
    try:
        reads, replies = kinds_of(steps[line.step])
    except (NameError, TypeError):  # a method of somebody's own need not name its messages
        return None
    return reads if run.is_owner(line.sender) else replies
