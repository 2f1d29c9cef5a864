"""The signals that interrupt a command."""

from __future__ import annotations

import signal


def interruptions() -> list[signal.Signals]:
    """Returns the signals that interrupt a command: Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed.

    A signal that the parent process ignores is omitted, as SIGHUP under ``nohup``. Ctrl-C is never omitted, because
    shells ignore it for the background jobs of a script.
    """
    ended = [one for name in ("SIGTERM", "SIGHUP") if (one := getattr(signal, name, None)) is not None]
    return [signal.SIGINT, *(one for one in ended if signal.getsignal(one) is not signal.SIG_IGN)]
