"""The command line: ``roundtable``, also ``python -m pipelines``."""

from __future__ import annotations


def main() -> None:
    """Runs the command that the arguments name, and exits with its code."""
    from pipelines.cli.app import app

    app(prog_name="roundtable")
