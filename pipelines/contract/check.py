"""Static checks of a protocol: duplicate names, SQL that does not parse, invalid relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import sqlglot
from sqlglot.errors import SqlglotError

from pipelines.contract.audit import sql_files
from pipelines.contract.protocol import Protocol
from pipelines.contract.round import OUTBOX, ProtocolForm, StateRelation, in_flight_schema
from pipelines.errors import ProtocolError

CALLS = ("join", "subscribe", "unsubscribe", "publish")
_RESERVED = ("message", "call_log", "in_flight")
_GENERAL = "pipelines.audits"
"""The package with the SQL of the audits and relations of all protocols."""
_HEAD = {*in_flight_schema(ProtocolForm.payload).names, *OUTBOX, "latency_rounds"}


def check_protocol(protocol: Protocol, form: ProtocolForm, view_packages: Collection[str] = ()) -> None:
    """Checks `protocol`, and the tables and the payload of its form `form`.

    Args:
        protocol: The protocol.
        form: One of its forms.
        view_packages: The packages with the views of all stores and of other protocols.

    Raises:
        ProtocolError: The check found problems. The message lists all of them.
    """
    body = _parsed("body", f"select {form.body}")
    problems = [*_kinds(protocol), *_payload(form), *_states(form), *_statements(protocol), *body]
    problems += _views(protocol, view_packages)
    if problems:
        raise ProtocolError(protocol.name, problems)


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _kinds(protocol: Protocol) -> Iterator[str]:
    for kind in {*protocol.kinds} & {*CALLS}:
        yield f"message kind {kind!r} is the name of a call; allowed: another name, e.g. {kind.upper()!r}"
    for name in _twice(audit.name for audit in protocol.audits):
        yield f"audit {name!r} occurs twice in audits; allowed: unique names"
    for name in sorted({audit.name for audit in protocol.audits} & sql_files(_GENERAL).keys()):
        yield f"audit {name!r} has the name of a general audit or relation; allowed: another name"


def _views(protocol: Protocol, packages: Collection[str]) -> Iterator[str]:
    own = sql_files(protocol.views) if protocol.views else {}
    for package in sorted({*packages} - {protocol.views}):
        for name in sorted(own.keys() & sql_files(package).keys()):
            yield f"view {name!r} has the name of a view in {package}; allowed: another name"


def _payload(form: ProtocolForm) -> Iterator[str]:
    names = form.payload.names
    for name in _twice(names):
        yield f"payload has column {name!r} twice; allowed: once"
    for name in sorted({*names} & _HEAD):
        yield f"payload has column {name!r}, which every message has; allowed: another name"


def _states(form: ProtocolForm) -> Iterator[str]:
    by_name = {state.table.name: state for state in form.states}
    for name in _twice(state.table.name for state in form.states):
        yield f"relation {name!r} occurs twice in states; allowed: once"
    for name, state in by_name.items():
        if name in _RESERVED or not name.isidentifier():
            yield f"a relation is called {name!r}; allowed: an identifier, not one of {', '.join(_RESERVED)}"
        if "run_id" not in state.table.key or not {*state.table.key} <= {*state.table.columns}:
            yield f"relation {name!r} has key {', '.join(state.table.key)}; allowed: run_id and columns of its own"
        yield from _facts(name, state)
        of = state.derived_from
        if of is not None and (of not in by_name or by_name[of].derived_from is not None):
            yield f"relation {name!r} is derived from {of!r}; allowed: another relation that is not derived itself"


def _facts(name: str, state: StateRelation) -> Iterator[str]:
    for fact, sql in state.facts.items():
        if not fact.isidentifier():
            yield f"a fact of relation {name!r} is called {fact!r}; allowed: an identifier"
        yield from _parsed(f"fact {fact!r} of relation {name!r}", f"select {sql}")


def _statements(protocol: Protocol) -> Iterator[str]:
    for name, sql in protocol.waits.items():
        yield from _parsed(f"waits of {name!r}", sql)
    for name in ("bound", "undecided", "waited"):
        if isinstance(text := getattr(protocol, name), str):
            yield from _parsed(name, text)


def _parsed(what: str, text: str) -> Iterator[str]:
    try:
        sqlglot.parse_one(text, dialect="spark")
    except SqlglotError as error:
        reason = str(error).splitlines()[0].split(" Line ")[0].rstrip(".")
        yield f"{what} is no SQL ({reason}); allowed: SQL that Spark reads"
