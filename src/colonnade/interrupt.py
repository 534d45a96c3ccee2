"""Ctrl-C before the command ``colonnade`` is there: a quiet end, with the code of an interrupt.

Loading the command line takes a moment, and Python alone would end it with a traceback. So the package imports this
before all else, and this imports next to nothing; it does something only where the package is loaded to be the command.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from types import FrameType

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def listen() -> None:
    """From now on Ctrl-C is a ``KeyboardInterrupt`` again, because there is something to end well."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(signal: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)  # nothing was begun, so there is nothing to close


def _is_command() -> bool:
    """Whether this process is the installed script or ``python -m colonnade``, and no child of such a one."""
    program = sys.argv[0] if sys.argv else ""
    as_module = program == "-m" and ("-m", "colonnade") in pairwise(sys.orig_argv)
    as_script = os.path.splitext(os.path.basename(program))[0] == "colonnade"
    children = sys.modules.get("multiprocessing")  # a child has loaded it
    return (as_module or as_script) and (children is None or children.parent_process() is None)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as by nohup
    signal.signal(signal.SIGINT, _leave)
