"""The reference pages KEYS.md (keys of a scenario) and TABLES.md (tables and views of a store), and the schema file.

``PYTHONPATH=tests python -m support.reference`` writes all three.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, Final, get_args

import pyarrow as pa
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pyspark.sql import types as T

from pipelines.contract.protocol import ComputedView
from pipelines.contract.round import in_flight_schema, stored_tables
from pipelines.engines.session import Session, open_session
from pipelines.protocols import OWN_PACKAGE, PACKAGES, PROTOCOLS, protocol_form
from pipelines.scenario.load import load_scenario, shipped
from pipelines.scenario.model import Scenario
from pipelines.scenario.shape import SCHEMA_FILE, branches, describe, scenario_schema, schema_text
from pipelines.sql.computed import COMPUTED
from pipelines.sql.query import SENT_DESCRIPTION, StoreReader
from pipelines.sql.snapshot import SENT_MESSAGE
from pipelines.sql.views import IN_FLIGHT_COLUMNS, view_head, view_sources
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG, HISTORY, ROUND_COMMIT, RUN, Table

_ROOT = Path(__file__).parents[2]
KEYS = _ROOT / "conf" / "KEYS.md"
TABLES = _ROOT / "pipelines" / "sql" / "TABLES.md"
_LONGEST = 60
_KEYS_HEAD = """# Keys of a scenario
Each section lists the keys of one part of a scenario file. A scenario with any other key is rejected. The example of a
key is the shortest value of the key in the installed scenarios; if none of them has the key, it is the default.

A description may begin with another key, or with a value of a key, and a colon. The described key then applies only
together with this key or value. For example, the description `count: minimum and maximum number of rounds` of key
`down` states that `down` applies only together with key `count`. The description of a setting may begin with the name
of the setting in the protocol's paper, for example `T_p:`.

`python -m support.reference` (in folder `tests`) generates this page from the model that validates scenario files.
`roundtable schema` prints the model as JSON Schema. An editor completes and checks keys if the first line of a scenario
is `# yaml-language-server: $schema=...` with the path of that schema.
"""


def keys_page() -> str:
    """Returns the content of KEYS.md."""
    lines = [_KEYS_HEAD]
    for model in _models(Scenario, set()):
        lines.append(f"## {'scenario' if model is Scenario else f'`{model.__name__}`'}\n")
        if model.__doc__:
            lines.append(f"{' '.join(model.__doc__.split())}\n")
        lines.append("| key | allowed | default | what | example |\n|---|---|---|---|---|")
        lines += [_key_row(model, field.alias or name, field) for name, field in model.model_fields.items()]
        lines.append("")
    return "\n".join(lines) + "\n"


def _models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    foreign = {spec.settings for name, spec in PROTOCOLS.items() if PACKAGES[name] != OWN_PACKAGE}
    if model in seen or model in foreign:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        for inner in _inside(field.annotation):
            yield from _models(inner, seen)


def _inside(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _inside(part)


def _key_row(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    schema: Mapping[str, Any] = scenario_schema()
    definition = schema if model is Scenario else schema["$defs"][model.__name__]
    inner = [f"[`{one.__name__}`](#{one.__name__.lower()})" for one in dict.fromkeys(_inside(field.annotation))]
    allowed = ", ".join(inner) or describe(branches(definition["properties"][key], None))
    default = "needed" if field.is_required() else _shown(definition["properties"][key].get("default"))
    example = _examples().get((model.__name__, key), definition["properties"][key].get("default"))
    cells = f"`{key}`", allowed, default, field.description or "", _shown(example)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}`"


@cache
def _examples() -> Mapping[tuple[str, str], object]:
    # Maps (model, key) to the shortest value of the key in the installed scenarios.
    found: dict[tuple[str, str], object] = {}
    for path in shipped().values():
        for key, value in _values(load_scenario(path).scenario):
            if key not in found or len(_shown(value)) < len(_shown(found[key])):
                found[key] = value
    return found


def _values(value: object) -> Iterator[tuple[tuple[str, str], object]]:
    if isinstance(value, BaseModel):
        plain = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for name in value.model_fields_set:
            key = type(value).model_fields[name].alias or name
            yield (type(value).__name__, key), plain[key]
            yield from _values(getattr(value, name))
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _values(item)


_MESSAGE_IN_FLIGHT = Table(
    "state_message", "a message in flight", ("run_id", "message_id"), in_flight_schema(T.StructType([]))
)
_COLUMNS = "| column | type | meaning |\n|---|---|---|"
_WHOLE_WORDS: Final[Any] = {"break_long_words": False, "break_on_hyphens": False}
_TABLES_HEAD = """# Tables and views
This page lists the tables and views of a store. `python -m support.reference` (in folder `tests`) generates it from the
definitions in the program. `roundtable sql DIR "DESCRIBE name"` describes the columns of a table or view in one store.

Rounds are whole numbers. The tables identify nodes by ids; table `node` and the views also contain their names.
Only the tables `predicate`, `violation` and `fault_event` can have nulls in key columns.
"""


def tables_page(session: Session) -> str:
    """Returns the content of TABLES.md. The engine of ``session`` infers the types of the columns of views."""
    return "\n".join(_lines(session)) + "\n"


def _lines(session: Session) -> Iterator[str]:
    yield _TABLES_HEAD
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
    """Writes the schema file and the pages."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    KEYS.write_text(keys_page(), encoding="utf-8")
    with open_session("local") as session:
        TABLES.write_text(tables_page(session), encoding="utf-8")


if __name__ == "__main__":
    main()
