"""``roundtable init``: writes a scenario to begin with, and says what it lacks."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from pipelines.cli.ends import complain
from pipelines.cli.lines import print_lines, unbroken
from pipelines.errors import DataFileError, ScenarioError
from pipelines.experiment.plan import built, check, notes
from pipelines.experiment.prepared import expand_runs
from pipelines.scenario.load import read_scenario
from pipelines.scenario.pages import SCHEMA_FILE
from pipelines.scenario.template import template


def write_scenario(file: Path, overlay: Path | None, subscriptions: Path | None, publications: Path | None) -> None:
    """Writes a scenario into a new file.

    Raises:
        DataFileError: The file is there already or cannot be written, or one that it is to name cannot be read.
    """
    if file.exists():
        raise DataFileError(f"{str(file)!r} is there already; name another file, or remove it")
    beside = file.absolute().parent
    given = [_beside(path, beside) for path in (overlay, subscriptions, publications)]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem).lstrip("_.-") or "scenario"
    schema = os.path.relpath(SCHEMA_FILE, beside)
    names = _names(file, template(name, schema, given[0]))
    texts = [template(name, schema, *given, names=names, spread=spread) for spread in (False, True)]
    problems = [_problems(file, text) for text in texts]
    chosen = 1 if problems[0] and not problems[1] else 0
    try:
        file.write_text(texts[chosen], encoding="utf-8")
    except OSError as error:
        raise DataFileError(f"{str(file)!r} cannot be written: {error.strerror}; check the folder") from error
    commands = "; ".join(unbroken(f"roundtable {command} {shlex.quote(str(file))}") for command in ("plan", "run"))
    print_lines(f"{file}: written; next: {commands}")
    if problems[chosen]:
        complain("it has to be changed before it can be run:", *problems[chosen])
    else:
        for part, note in notes(expand_runs(read_scenario(file, texts[chosen]))):
            print_lines(f"{part}: {note}")


def _names(file: Path, text: str) -> frozenset[str]:
    """Returns the nodes of the overlay of a scenario; none where it cannot be built."""
    try:
        _, overlay, *_ = next(built(expand_runs(read_scenario(file, text))))
    except ScenarioError:
        return frozenset()
    return frozenset(overlay.names)


def _problems(file: Path, text: str) -> tuple[str, ...]:
    """Returns what is wrong with a scenario."""
    try:
        check(expand_runs(read_scenario(file, text)))
    except ScenarioError as error:
        return error.problems
    return ()


def _beside(path: Path | None, folder: Path) -> Path | None:
    """Returns a path as a scenario of a folder names it."""
    return None if path is None else Path(os.path.relpath(path.absolute(), folder))
