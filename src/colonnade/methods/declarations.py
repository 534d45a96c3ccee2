"""What messages that several methods share show of labels and columns: one declaration per kind of message."""

from __future__ import annotations

from colonnade.core.disclosure import LABEL_SEALS, Disclosure

Told = tuple[Disclosure, ...]

_KNOWN_ROWS = "200 known rows"
_EMBEDDINGS = "a decoder that is trained on them rebuilds columns, the better the wider the embedding"
_LOGITS = "a decoder that is trained on them rebuilds part of the columns"
_NUMBERS = "they are linear in the columns, or made to rebuild them"


def of_embeddings(step: str, way: str = "up") -> Disclosure:
    """What embeddings of rows show of the columns behind them; their sum over parties shows as much."""
    seals = ("noise",) if way == "up" else ()
    return Disclosure(step, way, "columns", "read", given=_KNOWN_ROWS, note=_EMBEDDINGS, stopped_by=seals)


def of_gradients(step: str) -> Disclosure:
    """What gradients of embeddings show of labels."""
    given = "one known label of each class (with two classes, nothing)"
    note = "gradients of rows of one class point the same way"
    return Disclosure(step, "down", "labels", "read", given=given, note=note, stopped_by=LABEL_SEALS)


def of_labels(step: str, note: str = "it is the probabilities less the label") -> Disclosure:
    """What shows labels of any number of classes; by default of gradients of logits and of duals."""
    return Disclosure(step, "down", "labels", "read", note=note, stopped_by=LABEL_SEALS)


def of_training(step: str) -> Disclosure:
    """What an embedding shows of labels on which it was trained."""
    note = "training on labels shaped the embedding"
    return Disclosure(step, "down", "labels", "leaks", note=note, stopped_by=LABEL_SEALS)


def of_logits(step: str, *stopped_by: str) -> Disclosure:
    """What logits of rows show of the columns behind them."""
    return Disclosure(
        step, "up", "columns", "leaks", given=_KNOWN_ROWS, note=_LOGITS, stopped_by=("noise", *stopped_by)
    )


def of_numbers(step: str) -> Disclosure:
    """What main directions, and the like, show of columns."""
    return Disclosure(step, "up", "columns", "read", given=_KNOWN_ROWS, note=_NUMBERS, stopped_by=("noise",))


def of_slopes(step: str) -> Disclosure:
    """What a party's gradients of somebody else's embedding show of its columns."""
    note = "how an embedding should change depends on the party's columns"
    return Disclosure(step, "up", "columns", "read", given=_KNOWN_ROWS, note=note, stopped_by=("noise", "blind"))


def of_others(step: str) -> Disclosure:
    """What an answer that depends on the sum of all logits shows a party of the others' columns."""
    note = "less a party's own part it holds the sum of the others' logits"
    return Disclosure(step, "down", "columns", "leaks", given=_KNOWN_ROWS, note=note, stopped_by=("noise",))


def of_predictions(step: str) -> Disclosure:
    """What gradients, or residuals, show a party of the others' columns: what those predict is in every one."""
    note = "they hold what all columns predict, and with it a part of the others'"
    return Disclosure(step, "down", "columns", "leaks", given=_KNOWN_ROWS, note=note, stopped_by=("noise",))


def of_nothing(step: str, way: str, secret: str, note: str) -> Disclosure:
    """A message from which nobody knows how to tell the secret."""
    return Disclosure(step, way, secret, "nothing known", note=note)


def of_split_networks(embed: str, follow: str) -> Told:
    """Embeddings up, their gradients down."""
    return of_embeddings(embed), of_gradients(follow), of_predictions(follow)


def of_logit_sums(step: str, follow: str, *, blindable: bool = True) -> Told:
    """Logits up, something from which labels can be read down."""
    return of_logits(step, *(("blind",) if blindable else ())), of_labels(follow), of_others(follow)
