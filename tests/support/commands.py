"""Commands in this process, and an interruption in the middle of a run."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from pipelines.cli.app import app
from pipelines.rounds.progress import Progress


def cli(*arguments: object) -> Result:
    """Returns how a command ended."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def stop(progress: Progress) -> None:
    """Interrupts a run in the middle."""
    if progress.round >= 4:
        raise KeyboardInterrupt
