"""The page of all tables and views, ``pipelines/sql/TABLES.md``: ``python -m pipelines.sql.table_page`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import fill

from pyspark.sql import types as T

from pipelines.contract.in_flight import in_flight_schema
from pipelines.protocols import PROTOCOLS, protocol_module
from pipelines.sql.query import MADE
from pipelines.sql.views import view_names, view_sql
from pipelines.tables import CALL_LOG, HISTORY, MESSAGE, Table

_OF_MESSAGE = {field.name: field.metadata["comment"] for field in MESSAGE.schema} | {
    "remaining_rounds": "rounds until it is due"
}
_MESSAGE_IN_FLIGHT = Table(
    "state_message", "a message in flight", ("run_id", "message_id"), in_flight_schema(T.StructType([]))
)
PAGE = Path(__file__).parent / "TABLES.md"
_HEAD = """# Tables and views
Made by `python -m pipelines.sql.table_page` from the definitions in the program. `roundtable sql DIR "DESCRIBE name"`
says the same of one store.

Rounds are whole numbers; node names are in table `node`, all other tables have ids. Keys are null in `violation` and
`fault_event` only.
"""


def page_text() -> str:
    """Returns the text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    yield "## History\nRows are written once; audits write `violation`, and how each `run` ended."
    for table in HISTORY:
        yield from _table(table)
    yield "\n## Views"
    for name in sorted([*view_names(), *MADE]):
        yield f"\n### {name}\n{MADE[name] if name in MADE else _comment(name)}"
    for protocol in PROTOCOLS:
        for name, view in sorted(protocol_module(protocol).views.items()):
            first, *rest = view.question.splitlines()
            yield "\n".join([f"\n### {name}", f"**{first}**", *rest])
    yield "\n## State of the engine\nOverwritten at each commit; with `--as-of-round R` as of the last commit by then."
    yield from _table(_MESSAGE_IN_FLIGHT)
    yield "\nMore columns are what the messages of the protocol carry."
    yield from _table(CALL_LOG)
    for protocol in PROTOCOLS:
        yield f"\n## State of protocol {protocol}"
        for state in protocol_module(protocol).states:
            yield from _table(replace(state.table, name=f"state_{state.table.name}"))


def _table(table: Table) -> Iterator[str]:
    grain = f"A row is {table.grain}; key `{', '.join(table.key)}`."
    yield f"\n### {table.name}\n{_wrapped(grain)}\n"
    yield "| column | type | meaning |\n|---|---|---|"
    for field in table.schema:
        meaning = field.metadata.get("comment", _OF_MESSAGE.get(field.name, "")).replace("|", "\\|")
        yield f"| `{field.name}` | {field.dataType.simpleString()} | {meaning} |"


def _comment(view: str) -> str:
    """Returns the comment at the head of a view as Markdown: the question, then the rest."""
    lines = [line.removeprefix("--").strip() for line in view_sql(view).splitlines() if line.startswith("--")]
    return "\n".join(_wrapped(part) for part in (f"**{lines[0]}**", " ".join(lines[1:])) if part)


def _wrapped(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
