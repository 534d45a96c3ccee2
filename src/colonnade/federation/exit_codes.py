"""The exit codes of a side of a federation: they say what to do without reading the side's log.

Causes are found by the names of an error's classes, nearest first, so each error needs one line here and no import.
"""

from __future__ import annotations

import errno
from enum import IntEnum


class Exit(IntEnum):
    """The codes; ``meaning`` is a sentence about each."""

    FINISHED = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    AWAY = 3
    REFUSED = 4
    PROTOCOL = 5
    FOLDER = 6
    TRAINING = 7
    INTERRUPTED = 130  # 128 + SIGINT, as shells have it

    @property
    def meaning(self) -> str:
        """What happened.

        >>> Exit(3).meaning
        'a party was absent past the deadline, or a port or a name cannot be had'
        """
        return _MEANINGS[self]

    @property
    def cause(self) -> str:
        """One word, for metrics and logs.

        >>> Exit.BAD_INPUT.cause
        'bad_input'
        """
        return self.name.lower()


_MEANINGS = {
    Exit.FINISHED: "the job is finished",
    Exit.UNEXPECTED: "something that Colonnade did not expect; the log has a traceback, please report it",
    Exit.BAD_INPUT: "a job, an option, a file or a table that makes no sense",
    Exit.AWAY: "a party was absent past the deadline, or a port or a name cannot be had",
    Exit.REFUSED: "a certificate, an identity, a clock, a version or a field of the manifest was refused",
    Exit.PROTOCOL: "a peer broke the protocol",
    Exit.FOLDER: "the disk is full, or a folder or checkpoint cannot be used",
    Exit.TRAINING: "training cannot go on: values stopped being numbers, or the privacy budget is used up",
    Exit.INTERRUPTED: "somebody stopped it (Ctrl-C, or a service that was stopped); it can be resumed",
}
_BY_CLASS = {
    "AwayError": Exit.AWAY,
    "LinkError": Exit.AWAY,
    "RefusedError": Exit.REFUSED,
    "ManifestError": Exit.REFUSED,
    "MessageError": Exit.PROTOCOL,
    "SealError": Exit.PROTOCOL,
    "PrivacyError": Exit.TRAINING,
    "TrainingError": Exit.TRAINING,
    "CheckpointError": Exit.FOLDER,
    "FolderError": Exit.FOLDER,
    "ColonnadeError": Exit.BAD_INPUT,
    "KeyboardInterrupt": Exit.INTERRUPTED,
}
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def exit_of(error: BaseException | None) -> Exit:
    """The code for what ended a side; None is a finished job.

    >>> exit_of(KeyboardInterrupt()), exit_of(ZeroDivisionError())
    (<Exit.INTERRUPTED: 130>, <Exit.UNEXPECTED: 1>)
    """
    if error is None:
        return Exit.FINISHED
    for cls in type(error).__mro__:
        if cls.__name__ in _BY_CLASS:
            return _BY_CLASS[cls.__name__]
    if isinstance(error, OSError) and error.errno in _DISK:
        return Exit.FOLDER
    return Exit.UNEXPECTED
