"""Commands for testers: extract one run as a scenario, shrink it, and compare two runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.ends import INVALID, VALID, complain
from pipelines.cli.options import (
    Engine,
    FirstStore,
    Folder,
    Json,
    Output,
    Remote,
    SecondStore,
    SomeRunId,
    opened_store,
    option,
    the_run,
)
from pipelines.errors import StoreError

if TYPE_CHECKING:
    from pipelines.sql.differences import Difference


def extract(folder: Folder, run_id: SomeRunId = None, output: Output = None) -> None:
    """Write a scenario that repeats one run of a store.

    The scenario lists the overlay, the calls and the faults of the run, without generators and input files. Running it
    reproduces the rows of the run.
    """
    from pipelines.experiment.listed import extracted
    from pipelines.experiment.manifest import Manifest
    from pipelines.scenario.yaml_text import scenario_text

    _check_new(output)
    run_id = the_run(Manifest.read(folder).prepared().runs, run_id)
    parts = extracted(folder, run_id)
    _write(output, scenario_text(parts, [f"Run {run_id} of {folder}, with its overlay, calls and faults as lists."]))


def shrink(
    folder: Folder, run_id: SomeRunId = None, output: Output = None,
    guarantee: Annotated[
        str | None, option("NAME", "Guarantee that the scenario must break.  \\[default: the first broken guarantee]")
    ] = None,
    engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Write the smallest scenario found that breaks a guarantee.

    Removes faults, calls and nodes of the run by delta debugging. One job executes up to 64 candidate scenarios as its
    runs. The result is minimal: if any single fault, call or node is removed from it, the guarantee holds.
    """
    from pipelines.experiment.manifest import Manifest
    from pipelines.hunting.shrink import shrink as shrunk_run
    from pipelines.scenario.yaml_text import scenario_text

    _check_new(output)
    run_id = the_run(Manifest.read(folder).prepared().runs, run_id)
    with opened_store(folder, engine) as result:
        found = shrunk_run(folder, run_id, result.session, guarantee, complain)
    excused = ", which is excused: the faults are beyond the bound" if found.is_excused else ""
    heading = [
        f"Run {run_id} of {folder}, shrunk to {found.sizes}; {found.n_played:,} candidates were executed.",
        f"It breaks {found.guarantee}{excused}.",
    ]
    _write(output, scenario_text(found.parts, heading))


def _check_new(output: Path | None) -> None:
    if output is not None and output.exists():
        raise StoreError(f"the file {str(output)!r} already exists; name a new file with -o")


def _write(output: Path | None, text: str) -> None:
    if output is None:
        print(text, end="")
        return
    from pipelines.store.roots import write_whole  # imports the Delta library

    try:
        write_whole(output, text)
    except OSError as error:
        raise StoreError(f"the file {str(output)!r} cannot be written: {error.strerror or error}") from error
    complain(f"written to {output}; to run it: roundtable run {output}")


def diff(
    first: FirstStore, second: SecondStore,
    run_id: Annotated[int | None, option("R", "Run of A.  \\[default: all runs]", "--run")] = None,
    other_run: Annotated[int | None, option("S", "Run of B.  \\[default: R]")] = None,
    as_json: Json = False, engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Show the first difference of two runs or two stores.

    Shows the earliest round, the table and the rows that differ. Exit code 1 if the runs differ.
    """
    from pipelines.result import Result
    from pipelines.sql.differences import different_parameters, first_difference
    from pipelines.sql.errors import readable_errors
    from pipelines.store.folder import check_store

    if other_run is not None and run_id is None:
        raise typer.BadParameter("--other-run is given without --run; name the run of A, too")
    runs = None if run_id is None else (run_id, run_id if other_run is None else other_run)
    with opened_store(first, engine) as mine:
        check_store(second)
        theirs = Result(second, mine.session)
        with readable_errors():
            given = {} if runs is None else different_parameters(mine.reader, theirs.reader, runs)
            found = first_difference(mine.reader, theirs.reader, runs)
    if as_json:
        told = {"difference": None if found is None else asdict(found), "parameters": given}
        print(json.dumps(told, ensure_ascii=False))
    else:
        print(difference_text(found, given))
    raise typer.Exit(VALID if found is None else INVALID)


def difference_text(found: Difference | None, given: Mapping[str, tuple[Any, Any]]) -> str:
    """Returns a description of ``found``, preceded by the parameters that differ between the two runs."""
    lines = [f"{path}: {json.dumps(mine)} in A, {json.dumps(theirs)} in B" for path, (mine, theirs) in given.items()]
    if found is None:
        return "\n".join([*lines, "no difference: the histories have the same rows"])
    when = "before the first round" if found.round is None else f"round {found.round}"
    lines.append(f"first difference: run {found.run_id}, {when}, table {found.table} {found.event}".rstrip())
    for side, rows in (("A", found.in_first), ("B", found.in_second)):
        lines += [f"  only in {side}: {_shown(row)}" for row in rows] or [f"  only in {side}: nothing"]
    counts = ", ".join(f"{table} {number:,}" for table, number in found.counts.items())
    return "\n".join([*lines, f"rows that differ from there on: {counts}"])


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.items() if value is not None)
