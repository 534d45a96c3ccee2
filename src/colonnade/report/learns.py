"""What a line of the ledger means: which values the messages held, which seals were on them, what could be learnt."""

from __future__ import annotations

from typing import Any

from colonnade.report.summary import RunView
from colonnade.run.map_step import embedding_map
from colonnade.runtime.schema import kinds_of
from colonnade.runtime.step_words import VALUES
from colonnade.seal import SEALS
from colonnade.seal.gradient_noise import GradientSeal
from colonnade.wire.ledger import Line

FROM_LABELS = ("goal", "u", "dual", "residual", "y", "slope")
AT_THE_OWNER = {
    "h": "A condensed view of each row: rows that are alike look alike, and columns may be guessed from it.",
    "o": "What this party's columns alone say about each row's label.",
    "slope": "How the party would have the owner's embedding change, which hints at its columns.",
    "points": "Which rows look alike to this party.",
    "norm": "How much the model relies on this party; nothing about a row.",
}
AT_A_PARTY = {
    "h": "A condensed view of each row, made of others' columns.",
    "h_others": "A condensed view of each row, made of others' columns.",
    "w": "The top net as another owner's labels shaped it.",
    "each": "How much each party tells about the labels.",
    "o": "What the model says about each row.",
    "way": "Which rows are asked about, and which map of them is drawn.",
}
OF_NO_METHOD = {"embedding_map": embedding_map}  # steps that the parties of any method take
ROWS_FOR = {"train": "training rows", "evaluate": "rows of the evaluation", "predict": "rows of the prediction"}
ON_GRADIENTS = [kind for kind, seal in SEALS.items() if issubclass(seal, GradientSeal)]
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
    return _party_learns(run, line) if run.is_owner(line.sender) else _owner_learns(run, line)


def _owner_learns(run: RunView, line: Line) -> str:
    if is_blinded(run, line):
        return "Only the sum over all parties, never one party's own values."
    known = [AT_THE_OWNER[name] for name in _fields(run, line) if name in AT_THE_OWNER]
    sentence = known[0] if known else "What the party's columns say about each row."
    if line.summed is None and _may_be_blinded(run, line):
        sentence += " Or only the sum over all parties: the ledger is too old to say which."
    return f"{sentence} Noise blurs it." if "noise" in seals_on(run, line) else sentence


def _party_learns(run: RunView, line: Line) -> str:
    fields = _fields(run, line)
    if line.purpose == "train" and (not fields or set(fields) & set(FROM_LABELS)):
        noisy = any(kind.endswith("-labels") for kind in seals_on(run, line))
        if run.tells_labels == "shown":
            return f"The {'noisy ' if noisy else ''}label of each of its training rows."
        blurred = any(kind in ON_GRADIENTS for kind in seals_on(run, line))
        return f"It can infer {'noisy ' if noisy else ''}labels: rows of one class get gradients that are alike." + (
            " Noise blurs each message, and is averaged out over many." if blurred else ""
        )
    known = [AT_A_PARTY[name] for name in fields if name in AT_A_PARTY]
    return known[0] if known else "Which rows are asked about."


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
