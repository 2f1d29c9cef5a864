"""The state tables of a store: the tables of its protocols, and the tables of the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from pipelines.contract.round import ProtocolForm, in_flight_schema
from pipelines.tables import CALL_LOG, Table

STATE = "state_"
"""The prefix of the names of state tables."""
IN_FLIGHT = f"{STATE}message"


def state_tables(protocols: Mapping[str, ProtocolForm]) -> dict[str, dict[str, Table]]:
    """Returns the state tables of a store, by protocol and by the name that the protocol's SQL uses.

    The SQL of a protocol calls a table ``state_<name>``. The table has the same name in the store, unless two protocols
    of the store declare ``name`` with different columns. Then its name in the store is ``state_<protocol>_<name>``. In
    a store of several protocols, each protocol has its own table of messages in flight.
    """
    own = {name: _own_tables(protocol) for name, protocol in protocols.items()}
    if len(own) == 1:
        return own
    forms: dict[str, set[str]] = defaultdict(set)
    for tables in own.values():
        for name, table in tables.items():
            forms[name].add(table.schema.simpleString())
    apart = {name for name, found in forms.items() if len(found) > 1 or name == IN_FLIGHT}
    return {
        protocol: {
            name: replace(table, name=f"{STATE}{protocol}_{name.removeprefix(STATE)}") if name in apart else table
            for name, table in tables.items()
        }
        for protocol, tables in own.items()
    }


def stored_tables(protocols: Mapping[str, ProtocolForm]) -> list[Table]:
    """Returns the distinct state tables of a store."""
    found = {table.name: table for tables in state_tables(protocols).values() for table in tables.values()}
    return list(found.values())


def _own_tables(protocol: ProtocolForm) -> dict[str, Table]:
    message = Table(IN_FLIGHT, "a message in flight", ("run_id", "message_id"), in_flight_schema(protocol.payload))
    named = [
        Table(f"{STATE}{state.table.name}", state.table.grain, state.table.key, state.table.schema)
        for state in protocol.states
    ]
    return {table.name: table for table in (*named, message, CALL_LOG)}
