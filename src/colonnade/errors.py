"""The exceptions of Colonnade, one tree.

::

    ColonnadeError                 everything below; catch this one at the edge
    ├── TableError                 a table or a federation that cannot be trained on
    │   └── NoCommonIdError        tables that have no id in common
    ├── DataError                  a named data set that cannot be had
    ├── ConfigError                an unknown name, an option out of range, a job file that makes no sense
    ├── ModelError                 a network that does not fit its party
    ├── MessageError               bytes that are not a message of ours
    ├── SealError                  a seal that a method cannot take, or a protocol that somebody broke
    │   ├── AwayError              a party that did not answer in time
    │   └── PrivacyError           a release that would spend more privacy than was granted
    ├── TrainingError              values that stopped being numbers, with party, round and step
    ├── ManifestError              terms of a federation that a side did not agree to
    ├── CheckpointError            a saved state that is torn, altered or foreign
    ├── FolderError                a run folder that cannot be read or written
    └── LinkError                  a connection that cannot be made: certificates, names, ports, TLS
        ├── RefusedError           a certificate, a name or a clock that a side does not believe
        ├── UnreachableError       nobody answers at the address yet; trying again may help
        └── Broken                 a connection that was there and broke; whose and why

    ColonnadeWarning               something was left out or is odd, and work goes on

Every message is one sentence: what came, what was expected, what to do.
The command line prints it and exits with code 2.
"""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class ColonnadeError(Exception):
    """Base of all errors that Colonnade raises on purpose."""


class TableError(ColonnadeError, ValueError):
    """A table or a federation that cannot be trained on."""


class NoCommonIdError(TableError):
    """Tables that have no id in common."""


class DataError(ColonnadeError):
    """A named data set that cannot be had."""


class ConfigError(ColonnadeError, ValueError):
    """An unknown name, an option out of range, a job file that makes no sense."""


class ModelError(ColonnadeError, ValueError):
    """A network that does not fit its party."""


class MessageError(ColonnadeError, ValueError):
    """Bytes that are not a message of ours."""


class SealError(ColonnadeError, ValueError):
    """A seal that a method cannot take, or a protocol that somebody broke."""


class AwayError(SealError):
    """A party that did not answer in time; ``party`` says which, where one is to blame."""

    def __init__(self, message: str, party: str | None = None) -> None:
        super().__init__(message)
        self.party = party


class PrivacyError(SealError):
    """A release that would spend more privacy than was granted."""


class TrainingError(ColonnadeError):
    """Values that stopped being numbers, with party, round and step."""


class CheckpointError(ColonnadeError):
    """A saved state that is torn, altered or foreign."""


class FolderError(ColonnadeError):
    """A run folder that cannot be read or written."""


class ManifestError(ColonnadeError):
    """Terms of a federation that a side did not agree to."""


class LinkError(ColonnadeError):
    """A connection between organisations that cannot be made: certificates, names, ports, TLS."""


class RefusedError(LinkError):
    """A certificate, a name or a clock that a side does not believe; trying again does not help."""


class UnreachableError(LinkError):
    """Nobody answers at the address yet; trying again may help."""


class Broken(LinkError):  # noqa: N818 - it says what the connection is
    """A connection that was there and broke; ``party`` says whose, ``said`` what the other side gave as its reason."""

    def __init__(self, message: str, party: str = "", said: str = "") -> None:
        super().__init__(message)
        self.party, self.said = party, said


class ColonnadeWarning(UserWarning):
    """Something was left out or is odd, and work goes on."""


def name_of(error: ColonnadeError) -> str:
    """The name by which another process makes the same error again."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _travelling())


def again(kind: str, text: str) -> ColonnadeError:
    """An error that another process had: of the same class if it is one of ours, with its sentence.

    Never one of those that make us wait or try again: they are about one's own end of a connection, and a party
    that sends something over it is not absent. A party that said so could keep the owner waiting for ever.

    >>> again("SealError", "the masks differ; stop."), again("AwayError", "wait for me.")
    (SealError('the masks differ; stop.'), ColonnadeError('wait for me.'))
    """
    cls = _travelling().get(kind, ColonnadeError)
    return ColonnadeError(text) if issubclass(cls, AwayError | UnreachableError | Broken) else cls(text)


def _travelling() -> dict[str, type[ColonnadeError]]:
    """Every class of the tree by its name."""
    classes: dict[str, type[ColonnadeError]] = {}
    new: list[type[ColonnadeError]] = [ColonnadeError]
    while new:
        cls = new.pop()
        classes[cls.__name__] = cls
        new += cls.__subclasses__()
    return classes


LONGEST = 500  # characters of another side's text that anybody here reads


def printable(text: object, most: int = LONGEST) -> str:
    r"""What another side said, fit for a terminal, a log or a page: on one line, without controls, and not too long.

    Control characters, escape sequences, line ends, marks that turn the direction of writing and whatever else has no
    picture of its own are replaced.

    >>> printable("well\x1b[2J\nowner: all is done\u202e", most=24)
    'well?[2J?owner: all i...'
    """
    raw = text[: most + 1] if isinstance(text, str) else str(text)
    seen = "".join(character if character.isprintable() else "?" for character in raw[: most + 1])
    return seen if len(seen) <= most else f"{seen[: most - 3]}..."


@contextmanager
def naming(party: str, what: str, where: str = "") -> Iterator[None]:
    """Let every sentence about what a party said name the party, what it answered, and where in a run that was.

    >>> with naming("shop", "embed"):
    ...     raise MessageError("a frame has no end.")
    Traceback (most recent call last):
    colonnade.errors.MessageError: 'shop' answered 'embed' with what cannot be: a frame has no end.
    """
    try:
        yield
    except (MessageError, SealError) as error:
        said = str(error)
        if isinstance(error, AwayError) or (f"'{party}'" in said and what in said):
            raise
        raise type(error)(f"'{party}' answered '{what}'{where} with what cannot be: {said}") from None


def unknown(what: str, name: object, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not in a list, with the nearest one suggested.

    >>> unknown("method", "vimadm", ["vafl", "vimadmm"])
    ConfigError("unknown method 'vimadm'; did you mean 'vimadmm'? Known: vafl, vimadmm.")
    >>> unknown("method", "x", ["vafl", "vimadmm"])
    ConfigError("unknown method 'x'; known: vafl, vimadmm.")
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean '{near[0]}'? Known" if near else "known"
    return ConfigError(f"unknown {what} '{name}'; {hint}: {', '.join(names) or 'none'}.")
