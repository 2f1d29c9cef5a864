"""The state tables of a store: the protocol's, and the engine's own."""

from __future__ import annotations

from pipelines.contract.in_flight import in_flight_schema
from pipelines.contract.round import Protocol
from pipelines.tables import CALL_LOG, Table


def state_tables(protocol: Protocol) -> list[Table]:
    """Returns the state tables of a store: the protocol's, and the engine's own."""
    own = [
        Table("state_message", "a message in flight", ("run_id", "message_id"), in_flight_schema(protocol.payload)),
        CALL_LOG,
    ]
    named = [
        Table(f"state_{state.table.name}", state.table.grain, state.table.key, state.table.schema)
        for state in protocol.states
    ]
    return named + own
