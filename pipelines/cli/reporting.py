"""``roundtable report``: one HTML file of a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.ends import INTERRUPTION
from pipelines.cli.options import Engine, Folder, Remote


def add_to(app: typer.Typer) -> None:
    """Adds the command to others."""
    app.command(epilog="Example: roundtable report runs/quickstart/latest --run 0 --out run0.html")(report)


def _rounds(value: str | None) -> str | None:
    """Checks the value of ``--rounds``."""
    found = re.fullmatch(r"(\d*):(\d*)", value or ":")
    if found is None:
        raise typer.BadParameter(f"{value!r} is no span of rounds; write A:B, A: or :B, e.g. 20:60")
    first, last = found.groups()
    if first and last and int(first) > int(last):
        raise typer.BadParameter(f"{value!r} ends before it begins; write the lower round first")
    return value


def report(
    folder: Folder,
    runs: Annotated[
        list[int] | None,
        typer.Option(
            "--run",
            metavar="R",
            show_default=False,
            help="A run to replay; may be repeated.  \\[default: all of up to 3, else the worst and the median]",
        ),
    ] = None,
    rounds: Annotated[
        str | None,
        typer.Option(metavar="A:B", callback=_rounds, help="The rounds of the replays.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "--out",
            "-o",
            metavar="FILE",
            help="The file.  \\[default: DIR/report.html]",
            show_default=False,
        ),
    ] = None,
    engine: Engine = None,
    remote: Remote = None,
) -> None:
    """Make one HTML file of a store, which opens offline.

    Verdict, replay of the overlay round by round, and the states of its nodes.
    """
    from pipelines.api import open_store
    from pipelines.store.roots import size_of

    chosen: Any = engine
    first, _, last = (rounds or ":").partition(":")
    with open_store(folder, engine=chosen) as result:
        INTERRUPTION.listen()
        path = result.report(tuple(runs or ()), int(first or 0), int(last) if last else None, out)
    print(f"report: {path} ({size_of(path) / 1e6:.1f} MB)")
