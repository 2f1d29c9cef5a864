"""Generates the page of all tables and views, ``pipelines/sql/TABLES.md``: ``python -m pipelines.sql.table_page``."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T

from pipelines.contract.protocol import ComputedView
from pipelines.contract.round import in_flight_schema, stored_tables
from pipelines.engines.session import Session, open_session
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.sql.computed import COMPUTED
from pipelines.sql.query import SENT_DESCRIPTION, StoreReader
from pipelines.sql.snapshot import SENT_MESSAGE
from pipelines.sql.views import IN_FLIGHT_COLUMNS, view_head, view_sources
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG, HISTORY, ROUND_COMMIT, RUN, Table

_MESSAGE_IN_FLIGHT = Table(
    "state_message", "a message in flight", ("run_id", "message_id"), in_flight_schema(T.StructType([]))
)
_COLUMNS = "| column | type | meaning |\n|---|---|---|"
_WHOLE_WORDS: Final[Any] = {"break_long_words": False, "break_on_hyphens": False}
PAGE = Path(__file__).parent / "TABLES.md"
_HEAD = """# Tables and views
This page lists the tables and views of a store. `python -m pipelines.sql.table_page` generates it from the definitions
in the program. `roundtable sql DIR "DESCRIBE name"` describes the columns of a table or view in one store.

Rounds are whole numbers. The tables identify nodes by ids; table `node` and the views also contain their names.
Only the tables `predicate`, `violation` and `fault_event` can have nulls in key columns.
"""


def page_text(session: Session) -> str:
    """Returns the content of the page. The engine of ``session`` infers the types of the columns of views."""
    return "\n".join(_lines(session)) + "\n"


def _lines(session: Session) -> Iterator[str]:
    yield _HEAD
    yield "## History\nRows are written once. Audits then write `violation` and the outcome of each run in `run`."
    for table in HISTORY:
        yield from _table(table)
    yield "\n## Views\nEach section has the question that the view answers, the grain and the columns."
    yield "If a view belongs to a protocol, its section names the protocol."
    views = _views(session)
    for name in sorted(views):
        yield views[name]
    yield "\n## State of the engine\nThese tables are overwritten at each commit."
    yield "With `--as-of-round R` they have the state of the last commit up to round R."
    yield from _table(_MESSAGE_IN_FLIGHT)
    yield "\nFurther columns contain the fields that the messages of the protocol carry."
    yield from _table(CALL_LOG)
    for protocol in PROTOCOLS:
        yield f"\n## State of protocol {protocol}"
        for state in protocol_form(protocol).states:
            yield from _table(replace(state.table, name=f"state_{state.table.name}"))


def _views(session: Session) -> dict[str, str]:
    found: dict[str, str] = {}
    for protocol in PROTOCOLS:
        made = PROTOCOLS[protocol].made_views
        with TemporaryDirectory() as folder:
            reader = _empty_store(session, Path(folder), protocol)
            given = {*reader.table("parameter").columns} - {"run_id"}
            for name in [*view_sources(), SENT_MESSAGE, *COMPUTED, *made]:
                if name not in found and name in reader.tables():
                    head = "\n".join(_head(name, made.get(name)))
                    found[name] = "\n".join([f"\n### {name}\n{head}\n", *_described(reader, name, given)])
    return found


def _empty_store(session: Session, root: Path, protocol: str) -> StoreReader:
    store, states = Store(root, session), stored_tables({protocol: protocol_form(protocol)})
    store.create(HISTORY)
    store.create(states, is_state=True)
    settings = {f"protocol.{name}": field.default for name, field in PROTOCOLS[protocol].settings.model_fields.items()}
    run = {"run_id": 0, "protocol": protocol, "form": "program", "parameters": json.dumps(settings, default=str)}
    commit = {"is_final": True, "versions": "{}"}
    for table, row in (RUN, run), (ROUND_COMMIT, dict.fromkeys(ROUND_COMMIT.columns, 0) | commit):
        store.load(table.name, pa.table({column: [row.get(column)] for column in table.columns}))
    return StoreReader(session, root)


def _described(reader: StoreReader, view: str, given: Container[str]) -> Iterator[str]:
    yield _COLUMNS
    rows = reader.sql(f"describe {view}").collect()
    for row in (row for row in rows if row.col_name not in given):
        yield _row(row.col_name, row.data_type, row.comment)
    if any(row.col_name in given for row in rows):
        yield "\nFurther columns contain the parameters of the runs, for example `protocol_delta`."


def _table(table: Table) -> Iterator[str]:
    grain = f"A row is {table.grain}; key `{', '.join(table.key)}`."
    yield f"\n### {table.name}\n{_wrapped(grain)}\n"
    yield _COLUMNS
    for field in table.schema:
        meaning = field.metadata.get("comment", IN_FLIGHT_COLUMNS.get(field.name, ""))
        yield _row(field.name, field.dataType.simpleString(), meaning)


def _row(name: str, type_: str, meaning: str | None) -> str:
    cell = (meaning or "").replace("|", "\\|")
    return f"| `{name}` | {type_} | {cell} |"


def _head(name: str, made: ComputedView | None) -> Iterator[str]:
    """Yields the description of a view as Markdown: the question, then the explanation."""
    if name in COMPUTED or name == SENT_MESSAGE:
        yield _wrapped(COMPUTED[name].question if name in COMPUTED else SENT_DESCRIPTION)
        return
    question, *lines = made.question.splitlines() if made else (view_head(name).question, *view_head(name).prose)
    yield _wrapped(f"**{question}**")
    parts: list[str] = []
    for line in lines:
        if line.startswith("* ") or not parts:
            parts.append(line)
        else:
            parts[-1] += f" {line}"
    for part in parts:
        yield fill(part, 120, subsequent_indent="  " * part.startswith("* "), **_WHOLE_WORDS)


def _wrapped(text: str) -> str:
    return fill(text, 120, **_WHOLE_WORDS)


def main() -> None:
    """Writes the page."""
    with open_session("local") as session:
        PAGE.write_text(page_text(session), encoding="utf-8")


if __name__ == "__main__":
    main()
