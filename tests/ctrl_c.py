"""Commands that hear Ctrl-C, whatever the process that starts them does with it."""

import sys

_HEAR = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"


def hearing(words):
    """The command with Ctrl-C switched on, which a test run in the background ignores, and so do its children.

    A small program does that and then becomes the command. A function in ``preexec_fn`` would run in a fork of the
    tests' own process, where gRPC, if a test before has loaded it, writes errors about its connections.
    """
    return [sys.executable, "-c", _HEAR, *words]
