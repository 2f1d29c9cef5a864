"""A small scenario, a function that runs commands in this process, and a callback that interrupts a run."""

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
"""A scenario without key ``engine``: two publications go from A over two links to C."""


def cli(*arguments: object, **options: Any) -> Result:
    """Runs a command and returns its result; ``options`` are those of `CliRunner.invoke`."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def stop(progress: Progress) -> None:
    """Progress callback that interrupts the run from round 4 on."""
    if progress.round >= 4:
        raise KeyboardInterrupt
