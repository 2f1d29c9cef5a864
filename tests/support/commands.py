"""A small scenario, commands in this process, and an interruption in the middle of a run."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from pipelines.cli.app import app
from pipelines.rounds.progress import Progress

SMALL = """name: small
protocol: {name: forwarding}
overlay: {links: [[A, B], [B, C]]}
workload:
  subscriptions: [{at: C, round: 0, topic: a}]
  publications: [{at: A, round: 3, topic: a}, {at: A, round: 5, topic: a}]
time: {rounds: 30}
"""
"""A scenario without the name of its engine: a publication goes over two links, and another one."""


def cli(*arguments: object, **options: Any) -> Result:
    """Returns how a command ended; the options are those of `CliRunner.invoke`."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def stop(progress: Progress) -> None:
    """Interrupts a run in the middle."""
    if progress.round >= 4:
        raise KeyboardInterrupt
