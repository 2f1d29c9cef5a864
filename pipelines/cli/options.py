"""Arguments and options that several commands share, with the checks of their values."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pipelines.contract.forms import ASKED_FORMS
from pipelines.engines.names import ASKED_ENGINES, current_name
from pipelines.errors import QueryError, nearest
from pipelines.rounds.progress import BarReporter, JsonReporter, LineReporter, Reporter

if TYPE_CHECKING:
    from pipelines.result import Result, RunRow
    from pipelines.scenario.load import RunConfig
    from pipelines.store.roots import Root, Schema

    Chosen = Any
    Parsed = Any
else:  # Typer accepts one class and names it in the help. A parser returns several, and a choice has its own type.
    Chosen = str | None
    Parsed = Path

FORMATS = ("table", "vertical", "json", "csv", "parquet")
FAILING = ("excused", "beyond", "missing")
"""The values of ``--fail-on``."""


def choice(allowed: tuple[str, ...], text: str, *names: str, **others: Any) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an option with help ``text`` whose values are ``allowed``."""
    return option("|".join(allowed), text, *names, **{**one_of(allowed), **others})


def one_of(allowed: tuple[str, ...]) -> dict[str, Any]:
    """Returns the settings of an option or argument with the values ``allowed``: a check, and shell completion."""

    def check(value: str | list[str] | None) -> str | list[str] | None:
        for one in [value] if isinstance(value, str) else value or ():
            if one not in allowed:
                message = f"{one!r} is none of {', '.join(allowed)};{nearest(one, allowed)}"
                raise typer.BadParameter(message.rstrip(";"))
        return value

    return {"callback": check, "autocompletion": lambda incomplete: _begun(allowed, incomplete)}


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def option(metavar: str | None, text: str, *names: str, **others: Any) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an option with help ``text``; without ``names``, Typer derives its name from the parameter."""
    return typer.Option(*names, metavar=metavar, help=text, **others)


def flag(text: str, *names: str) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an option without a value, with help ``text``. If ``names`` is set, Typer adds no option ``--no-...``."""
    return option(None, text, *names)


def argument(metavar: str, text: str, **others: Any) -> Any:  # noqa: ANN401 - as in Typer
    """Returns an argument with help ``text``."""
    return typer.Argument(metavar=metavar, help=text, **others)


def _begun_scenario(incomplete: str) -> list[str]:
    # If the result is empty, the shell completes file names.
    from pipelines.scenario.load import shipped

    return _begun(shipped(), incomplete)


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


def _store(metavar: str, text: str) -> Any:  # noqa: ANN401 - as in Typer
    def located(context: typer.Context, given: Any) -> Any:  # noqa: ANN401 - Typer evaluates the types
        # The location of a schema comes from the catalog. During shell completion, the argument stays unchanged.
        from pipelines.store.roots import Schema

        if not isinstance(given, Schema) or context.resilient_parsing:
            return given
        from pipelines.store.catalog import located as of_schema

        return of_schema(given, engine=context.params.get("engine"))

    return argument(metavar, text, parser=place, callback=located)


def _remote(context: typer.Context, url: str | None) -> str | None:
    # Engine connect and PySpark read the environment variable.
    if url is not None:
        if not url.startswith("sc://"):
            raise typer.BadParameter(f"{url!r} is not an address of a Spark Connect server; write sc://host:port")
        if is_written(context, "remote"):
            check_server(context.params.get("engine"))
        os.environ["SPARK_REMOTE"] = url
    return url


def is_written(context: typer.Context, name: str) -> bool:
    """Returns whether an option is on the command line; False for a default or the value of a variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_server(engine: str | None) -> None:
    """Rejects option ``--remote`` if the engine is neither ``connect`` nor chosen automatically."""
    if engine not in (None, "auto", "connect"):
        raise typer.BadParameter(
            f"--remote names a server of engine connect, but the engine is {engine}; omit --remote, or use engine "
            "connect"
        )


File = Annotated[
    Path, argument("FILE", "A scenario file, or the name of an installed scenario.", autocompletion=_begun_scenario)
]  # fmt: skip
Folder = Annotated[Parsed, _store("DIR", "A store: a folder, an address, or catalog.schema.")]
FirstStore = Annotated[Parsed, _store("A", "A store.")]
SecondStore = Annotated[Parsed, _store("B", "Another or the same store.")]
Stores = Annotated[Parsed, _store("DIR", "A folder of stores.")]
NewStore = Annotated[
    Parsed,
    option(
        "DIR",
        "A new or empty folder, an address (s3a://bucket/folder, hdfs://host:port/folder, ...), or catalog.schema.  "
        "\\[default: runs/<scenario>/<UTC time>]", parser=place,
    ),
]  # fmt: skip


def _engine(context: typer.Context, value: str | None) -> Any:  # noqa: ANN401 - the value, checked
    engine = one_of(ASKED_ENGINES)["callback"](None if value is None else str(current_name(value)))
    # Options on the command line precede the other options, and Typer stores a value after its callback.
    if context.params.get("remote") is not None and is_written(context, "remote"):
        check_server(engine)
        return engine or "connect"
    return engine


# `_store` needs the value of --engine, so --engine is eager: Typer parses it before all other arguments.
Engine = Annotated[
    Chosen,
    choice(ASKED_ENGINES, "Engine that executes runs and queries.", is_eager=True, callback=_engine),
]
Form = Annotated[
    Chosen,
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
        "URL", "Server of engine connect, e.g. sc://localhost:15002. Selects this engine.", envvar="SPARK_REMOTE",
        callback=_remote, is_eager=True,
    ),
]  # fmt: skip
Overrides = Annotated[
    list[str] | None, option("PATH=VALUE", "Replace a value of the scenario; may be repeated.", "--set")
]


FailOn = Annotated[
    list[str] | None,
    choice(
        FAILING,
        "Also exit with 1 if violations were excused, faults exceeded the fault model, or wanted deliveries are "
        "missing; may be repeated.", "--fail-on",
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
    """Returns ``run_id`` if set, else the id of the only run."""
    if run_id is None and len(runs) != 1:
        raise QueryError(f"the store has {len(runs):,} runs; name one with --run, e.g. --run 0")
    return runs[0].run_id if run_id is None else run_id


def statement_of(statement: str | None, file: Path | None) -> str:
    """Returns a SQL statement: the content of ``file``, stdin if ``statement`` is ``-``, or else ``statement``."""
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


def opened_store(folder: Root, engine: Chosen) -> Result:
    """Opens a store for a command."""
    from pipelines.api import open_store  # imports PySpark

    return open_store(folder, engine=engine)


@contextmanager
def opened_output(path: Path | None) -> Iterator[TextIO]:
    """Opens the output of a command: the file ``path``, or stdout if ``path`` is ``None``.

    The file is replaced at the end of the ``with`` block, as in `opened_whole`.
    """
    if path is None:
        yield sys.stdout
        return
    from pipelines.store.roots import opened_whole, writing  # loads the Delta library

    with writing(path), opened_whole(path) as out:
        yield out
