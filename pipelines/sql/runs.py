"""Which protocols the runs of a store are of, which runs are of which, and what their state tables are called."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import groupby
from typing import Any

from pipelines.contract.forms import Form
from pipelines.contract.protocol import Protocol
from pipelines.contract.round import ProtocolForm
from pipelines.contract.state_tables import STATE, state_tables
from pipelines.protocols import PROTOCOLS, protocol_form, protocol_named
from pipelines.store.store import Store
from pipelines.tables import RUN, Table


class StoredRuns:
    """The runs of a store, by protocol; they are all there from its start."""

    def __init__(self, store: Store) -> None:
        """Points at a store; it is read when something is asked."""
        self._store = store

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return self._store.rows(RUN.name, ("run_id", "protocol", "form"))

    @cached_property
    def _forms(self) -> Mapping[str, Form]:
        return {row["protocol"]: row["form"] for row in self._rows}

    def protocol(self, name: str) -> Protocol:
        """Returns a protocol.

        Raises:
            ProtocolError: This installation lacks it.
        """
        return protocol_named(name)

    def form(self, name: str) -> ProtocolForm:
        """Returns the form of a protocol that played its runs; errors as `protocol`."""
        return protocol_form(name, self._forms[name])

    @cached_property
    def _spans(self) -> list[tuple[str, int, int]]:
        """Protocol, first run and last run of neighbours that are of one protocol, by id."""
        rows = self._rows
        ordered = sorted((row["run_id"], row["protocol"]) for row in rows)
        groups = ((protocol, [run for run, _ in of]) for protocol, of in groupby(ordered, key=lambda row: row[1]))
        return [(protocol, runs[0], runs[-1]) for protocol, runs in groups]

    @property
    def protocols(self) -> list[str]:
        """The protocols, in the order of their runs."""
        return list(dict.fromkeys(protocol for protocol, _, _ in self._spans))

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, Table]]:
        """The state tables of those of its protocols that this installation has, see `state_tables`."""
        return state_tables({name: self.form(name) for name in self.protocols if name in PROTOCOLS})

    def protocol_of(self, run_id: int) -> str:
        """Returns the protocol of a run; that of the first one where there is no such run."""
        found = (protocol for protocol, first, last in self._spans if first <= run_id <= last)
        return next(found, self._spans[0][0])

    def stored(self, protocol: str, name: str) -> str:
        """Returns what the store calls a state table of a protocol."""
        own = f"{STATE}{protocol}_{name.removeprefix(STATE)}"
        return own if self._store.version(own) >= 0 else name

    @cached_property
    def _owners(self) -> Mapping[str, frozenset[str]]:
        """The protocols that have a state table, by what the store calls it."""
        pairs = [(self.stored(name, table), name) for name, of in self.tables.items() for table in of]
        return {table: frozenset(name for other, name in pairs if other == table) for table, _ in pairs}

    def writes(self, run_id: int, state: str) -> bool:
        """Returns whether a run may have rows in a state table, by the store's name of it."""
        owners, protocol = self._owners.get(state), self.protocol_of(run_id)
        return owners is None or protocol in owners or protocol not in self.tables

    def rows_of(self, protocol: str, column: str = "run_id") -> str:
        """Returns SQL for the rows of a protocol's runs.

        Args:
            protocol: The protocol.
            column: The column with the run.
        """
        spans = [f"{column} between {first} and {last}" for name, first, last in self._spans if name == protocol]
        return f"({' or '.join(spans)})"
