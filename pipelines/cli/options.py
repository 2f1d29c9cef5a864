"""Arguments and options that several commands share, with the checks of their values."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pipelines.contract.forms import ASKED_FORMS
from pipelines.engines.names import ASKED_ENGINES, current_name
from pipelines.errors import QueryError, RoundtableError, nearest
from pipelines.rounds.progress import BarReporter, JsonReporter, LineReporter, Reporter

if TYPE_CHECKING:
    from pipelines.result import Result, RunRow
    from pipelines.scenario.expand import RunConfig
    from pipelines.store.roots import Root, Schema

    Parsed = Any
else:  # Typer accepts one class and names it in the help, but a parser returns values of several classes.
    Parsed = Path

FORMATS = ("table", "vertical", "json", "csv", "parquet")
FAILING = ("excused", "beyond", "missing")
"""The values of ``--fail-on``."""


def one_of(names: tuple[str, ...]) -> Callable[[str | None], str | None]:
    """Returns an option callback that rejects values outside ``names``."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(names)};{nearest(value, names)}".rstrip(";"))
        return value

    return check


def begun(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Returns a callback for shell completion. The callback returns the ``names`` that begin with its argument."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def option(metavar: str | None, text: str, *names: str, **others: Any) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an option with help ``text``; without ``names``, Typer derives its name from the parameter."""
    return typer.Option(*names, metavar=metavar, help=text, **others)


def flag(text: str, *names: str) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an option without a value, with help ``text``. If ``names`` is set, Typer adds no option ``--no-...``."""
    return option(None, text, *names)


def choice(allowed: tuple[str, ...], text: str, *names: str) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an option with help ``text`` whose value is one of ``allowed``."""
    return option("|".join(allowed), text, *names, callback=one_of(allowed), autocompletion=begun(allowed))


def argument(metavar: str, text: str, **others: Any) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an argument with help ``text``."""
    return typer.Argument(metavar=metavar, help=text, **others)


def _begun_scenario(incomplete: str) -> list[str]:
    """Returns the names of installed scenarios that begin with ``incomplete``, for shell completion.

    If the result is empty, the shell completes file names.
    """
    from pipelines.scenario.load import shipped

    return begun(tuple(shipped()))(incomplete)


def rounds_of_a_job(value: str) -> str:
    """Returns the value of option ``--rounds-per-job``; rejects values other than ``auto`` and positive integers."""
    if value != "auto" and not (value.isdigit() and int(value) >= 1):
        raise typer.BadParameter(f"{value!r} is neither auto nor a positive integer")
    return value


def rounds_of(text: str) -> tuple[int, int | None]:
    """Converts a value ``A:B`` to a first and a last round: 0 if ``A`` is missing, and None if ``B`` is missing."""
    found = re.fullmatch(r"(\d*):(\d*)", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a range of rounds; write A:B, A: or :B, e.g. 20:60")
    first, last = int(found[1] or 0), int(found[2]) if found[2] else None
    if last is not None and first > last:
        raise typer.BadParameter(f"{text!r} ends before it begins; write the lower round first")
    return first, last


def place(given: str) -> Root | Schema:
    """Converts a command-line argument to the folder or address of a store, or to a schema ``catalog.schema``."""
    from pipelines.store.roots import place_of

    return place_of(given)


def _located(context: typer.Context, given: Any) -> Any:  # noqa: ANN401 - Typer evaluates the types
    """Returns the location of a store.

    If ``given`` is a schema, the location comes from the catalog. During shell completion, ``given`` is returned
    unchanged.
    """
    from pipelines.store.roots import Schema

    if not isinstance(given, Schema) or context.resilient_parsing:
        return given
    from pipelines.store.catalog import located

    return located(given, engine=context.params.get("engine"))


def _remote(url: str | None) -> str | None:
    """Checks ``url``, the address of a Spark Connect server, and stores it in SPARK_REMOTE.

    Engine connect and PySpark read this environment variable.
    """
    if url is not None:
        if not url.startswith("sc://"):
            raise typer.BadParameter(f"{url!r} is not an address of a Spark Connect server; write sc://host:port")
        os.environ["SPARK_REMOTE"] = url
    return url


File = Annotated[
    Path, argument("FILE", "A scenario file, or the name of an installed scenario.", autocompletion=_begun_scenario)
]  # fmt: skip
Folder = Annotated[
    Parsed, argument("DIR", "A store: a folder, an address, or catalog.schema.", parser=place, callback=_located)
]  # fmt: skip
FirstStore = Annotated[Parsed, argument("A", "A store.", parser=place, callback=_located)]
SecondStore = Annotated[Parsed, argument("B", "Another or the same store.", parser=place, callback=_located)]
Stores = Annotated[Parsed, argument("DIR", "A folder of stores.", parser=place, callback=_located)]
NewStore = Annotated[
    Parsed,
    option(
        "DIR",
        "A new or empty folder, an address (s3a://bucket/folder, hdfs://host:port/folder, ...), or catalog.schema.  "
        "\\[default: runs/<scenario>/<UTC time>]", parser=place,
    ),
]  # fmt: skip


# `_located` needs the value of --engine, so --engine is eager: Typer parses it before all other arguments.
def _engine(value: str | None) -> str | None:
    return one_of(ASKED_ENGINES)(None if value is None else str(current_name(value)))


Engine = Annotated[
    str | None,
    option(
        "|".join(ASKED_ENGINES), "Engine that executes runs and queries.", callback=_engine,
        autocompletion=begun(ASKED_ENGINES), is_eager=True,
    ),
]  # fmt: skip
Form = Annotated[
    str | None,
    choice(
        ASKED_FORMS,
        "Node programs (many rounds per job) or dataflow steps (one round per job). Both write equal rows.",
    ),
]  # fmt: skip
SomeRunId = Annotated[int | None, option("R", "Id of the run; required if the store has several runs.", "--run")]
RowFormat = Annotated[str, choice(FORMATS, "Output format of the rows.", "--format")]
Remote = Annotated[
    str | None,
    option(
        "URL", "The server of --engine connect, e.g. sc://localhost:15002.", envvar="SPARK_REMOTE", callback=_remote,
        is_eager=True,
    ),
]  # fmt: skip
Overrides = Annotated[
    list[str] | None, option("PATH=VALUE", "Replace a value of the scenario; may be repeated.", "--set")
]


def _failing(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        one_of(FAILING)(value)
    return values


FailOn = Annotated[
    list[str] | None,
    option(
        "|".join(FAILING),
        "Also exit with 1 if violations were excused, faults exceeded the fault model, or wanted deliveries are "
        "missing; may be repeated.", "--fail-on", callback=_failing, autocompletion=begun(FAILING),
    ),
]  # fmt: skip
Quiet = Annotated[bool, flag("Print only the verdict.", "--quiet")]
AsJson = Annotated[bool, flag("Same as --format json.", "--json")]
Output = Annotated[Path | None, option("FILE", "Write to a file.", "--output", "-o")]
Json = Annotated[bool, flag("Print one JSON object per line.", "--json")]


def reporter_of(*, quiet: bool, as_json: bool) -> type[Reporter]:
    """Returns the class of the progress display that options ``--quiet`` and ``--json`` of a command select."""
    if quiet:
        return Reporter
    if as_json:
        return JsonReporter
    return BarReporter if sys.stderr.isatty() else LineReporter


def the_run(runs: Sequence[RunRow] | Sequence[RunConfig], run_id: int | None) -> int:
    """Returns ``run_id`` if set, else the id of the only run.

    Raises:
        QueryError: ``run_id`` is missing, and the store has several runs.
    """
    if run_id is None and len(runs) != 1:
        raise QueryError(f"the store has {len(runs):,} runs; name one with --run, e.g. --run 0")
    return runs[0].run_id if run_id is None else run_id


def statement_of(statement: str | None, file: Path | None) -> str:
    """Returns a SQL statement: the content of ``file``, stdin if ``statement`` is ``-``, or else ``statement``.

    Raises:
        BadParameter: Both or neither of ``statement`` and ``file`` are set.
        QueryError: The file cannot be read.
    """
    if statement is None and file is None:
        raise typer.BadParameter("missing argument 'STATEMENT': write one SELECT, or name a file with -f")
    if statement is not None and file is not None:
        raise typer.BadParameter(f"a SELECT and -f {file} are given; leave one of them out")
    if file is None:
        return sys.stdin.read() if statement == "-" else str(statement)
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise QueryError(f"the file {str(file)!r} cannot be read: {reason}; check its name and rights") from error


def opened_store(folder: Root, engine: Any) -> Result:  # noqa: ANN401 - one of `ASKED_ENGINES`
    """Opens a store for a command."""
    from pipelines.api import open_store  # imports PySpark

    return open_store(folder, engine=engine)


@contextmanager
def opened_output(path: Path | None) -> Iterator[TextIO]:
    """Opens the output of a command: the file ``path``, or stdout if ``path`` is ``None``.

    The file is replaced at the end of the ``with`` block, as in `opened_whole`.

    Raises:
        QueryError: The file cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    from pipelines.store.roots import opened_whole  # loads the Delta library

    try:
        with opened_whole(path) as out:
            yield out
    except RoundtableError:
        raise
    except OSError as error:
        raise QueryError(f"the file {str(path)!r} cannot be written: {error.strerror}; check the folder") from error
