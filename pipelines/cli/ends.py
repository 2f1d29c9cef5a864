"""The exit codes of ``roundtable``, and the handling of errors and of signals that end the program.

Errors are printed in one line, without a traceback.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from typing import Any

import typer
from typer.core import TyperGroup

from pipelines.cli.signals import interruptions
from pipelines.engines.names import engine_cure
from pipelines.errors import InternalError, RoundtableError, ScenarioError, root_cause, shortened
from pipelines.store.damage import surroundings_error

VALID, INVALID, UNKNOWN = 0, 1, 2
WRONG_INPUT = 64
INTERNAL = 70
INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of the signal, as for all signals in `interruptions`."""
CLOSED_PIPE = 141
_END_SECONDS = 60
_LONG_WORD = re.compile(r"\S{500,}")
_SHOWN = 100
"""The number of characters that an error shows of a value without spaces, such as a name, of 500 or more characters."""
BY_VERDICT = {"valid": VALID, "invalid": INVALID, "unknown": UNKNOWN}
DEBUG = "ROUNDTABLE_DEBUG"

# Typer exports `BadParameter`, but not its base, the class of all command-line errors.
_COMMAND_LINE_ERROR: Any = typer.BadParameter.__mro__[2]


class Commands(TyperGroup):
    """The command group of ``roundtable``, which exits with the codes of this module."""

    def main(self, *args: Any, standalone_mode: bool = True, **others: Any) -> Any:  # noqa: ANN401 - as in the base
        """Runs a command and exits with its exit code.

        If ``standalone_mode`` is false, the method does not exit, and raises the exceptions of the command.
        """
        run = partial(super().main, *args, **others | {"standalone_mode": False})
        return sys.exit(_code_of(run)) if standalone_mode else run()

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as in the base
        """Runs a command; exits with 128 plus the number of the signal if a signal of `interruptions` arrives.

        Typer alone would report Ctrl-C as an error.
        """
        with _interruptible() as received:
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                # The reader of stdout closed the pipe. Python flushes stdout at exit and would report the error again.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(CLOSED_PIPE) from None
            except BaseException as error:
                # An engine that a signal interrupts can raise an error of its own instead of KeyboardInterrupt.
                if not received and not isinstance(error, KeyboardInterrupt):
                    raise
                complain("; ".join(("interrupted", *_notes(error))))
                raise typer.Exit(128 + received[0] if received else INTERRUPTED) from None


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Inside the ``with`` block, the signals of `interruptions` raise `KeyboardInterrupt`. Yields the received signals.

    Python raises it when native code returns. If native code never returns, the program exits after `_END_SECONDS`.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def take(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, take) for number in interruptions()}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    earlier, ended = signal.set_wakeup_fd(writer, warn_on_full_buffer=False), Event()
    threading.Thread(target=_exit_late, args=(reader, ended), daemon=True).start()
    try:
        yield received
    finally:
        ended.set()
        signal.set_wakeup_fd(earlier)
        os.close(writer)
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _exit_late(reader: int, ended: Event) -> None:
    """Ends the program if `ended` is not set within `_END_SECONDS` after `reader` has received a signal's number."""
    number = os.read(reader, 1)
    os.close(reader)
    if number and not ended.wait(_END_SECONDS):
        os.write(2, f"interrupted; the program has not ended within {_END_SECONDS} s, so it is stopped\n".encode())
        os._exit(128 + number[0])


def complain(*lines: str) -> None:
    """Writes lines to stderr without wrapping; shortens long words. A terminal that has been closed gets no lines."""
    with suppress(OSError):
        print(*(_without_long_words(line) for line in lines), sep="\n", file=sys.stderr, flush=True)


def _without_long_words(text: str) -> str:
    return _LONG_WORD.sub(lambda word: shortened(word[0], _SHOWN), text)


def _code_of(command: Callable[[], object]) -> int:
    try:
        code = command()
    except _COMMAND_LINE_ERROR as error:
        error.message = _without_long_words(error.message)
        error.show()
        return WRONG_INPUT
    except InternalError as error:
        return _internal(error)
    except ScenarioError as error:
        complain(*error.problems)
        return WRONG_INPUT
    except ModuleNotFoundError as error:
        if (cure := engine_cure(error)) is None:
            return _internal(error)
        complain(f"error: {cure}")
        return WRONG_INPUT
    except Exception as error:  # users get one line; ROUNDTABLE_DEBUG=1 shows the traceback
        told = error if isinstance(error, RoundtableError) else surroundings_error(error)
        if told is None:
            return _internal(error)
        complain(f"error: {'; '.join((str(told), *_notes(error)))}")
        return WRONG_INPUT
    return code if isinstance(code, int) else VALID


def _internal(error: Exception) -> int:
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    said = root_cause(str(error))
    hint = "" if os.environ.get(DEBUG) else f" (set {DEBUG}=1 to see where; please report it)"
    what = "; ".join((f"{type(error).__name__}: {said[:300]}", *_notes(error)))
    complain(f"internal error: {what}{hint}")
    return INTERNAL


def _notes(error: BaseException) -> Sequence[str]:
    return getattr(error, "__notes__", ())
