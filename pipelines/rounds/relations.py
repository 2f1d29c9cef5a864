"""A protocol's relations between dataflow rounds: whole ones, those that grow by increments, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame

from pipelines.contract.round import CrashesDue, DataflowForm
from pipelines.engines.checkpoints import Checkpoints, Cut, Part
from pipelines.engines.frames import union

_MAX_INCREMENTS = 16
_NODE = ["run_id", "node_id"]


class Relations:
    """The state relations of one protocol that rounds read and write."""

    def __init__(self, protocol: DataflowForm, checkpoints: Checkpoints) -> None:
        """Starts without rows.

        Args:
            protocol: The protocol.
            checkpoints: Cuts off their plans.
        """
        self._checkpoints = checkpoints
        self._states = {state.table.name: state for state in protocol.states}
        self._parts: dict[str, list[DataFrame]] = {
            name: [checkpoints.empty(state.table.schema)] for name, state in self._states.items()
        }
        self._changed: set[str] = set()
        self.facts: dict[str, dict[str, int]] = {
            name: dict.fromkeys(state.facts, 0) for name, state in self._states.items()
        }

    @property
    def kept(self) -> list[DataFrame]:
        """The frames that rounds read."""
        return [part for parts in self._parts.values() for part in parts]

    def frames(self) -> dict[str, DataFrame]:
        """Returns the relations as rounds read them."""
        return {name: union(parts) for name, parts in self._parts.items()}

    def after_faults(
        self, crashes: CrashesDue, stored: Callable[[str], DataFrame]
    ) -> tuple[dict[str, DataFrame], list[str]]:
        """Applies crashes and recoveries of a round.

        Args:
            crashes: Who crashes, and who recovers.
            stored: Returns a state table as it was written last.

        Returns:
            The relations as faults leave them, and the names of those that are still to be checkpointed for that.
        """
        state, touched = self.frames(), []
        for name, known in self._states.items():
            if known.is_durable and crashes.recovered is not None:
                node = crashes.recovered.select(_NODE).hint("shuffle_hash")
                stored_rows = stored(f"state_{name}").join(node, _NODE, "left_semi")
                rows = self._checkpoints.keep(f"stored_{name}", stored_rows)
                state[name] = _without(state[name], crashes.recovered).unionByName(rows)
            elif not known.is_durable and crashes.crashed is not None:
                state[name] = _without(state[name], crashes.crashed)
            else:
                continue
            if known.compact is None:
                touched.append(name)
            else:
                state[name] = self._fold(name, known.compact(state[name]))
        return state, touched

    def part(self, name: str, rows: DataFrame) -> Part:
        """Returns a relation, or its increment, as a checkpoint takes it."""
        state = self._states[name]
        flags = ", ".join(f"case when {condition} then '{fact}' end" for fact, condition in state.facts.items())
        return Part(rows, state.table.schema, f"concat_ws(',', {flags})" if flags else "''")

    def take(self, cut: Cut, *, is_stored: bool = False) -> None:
        """Takes what a checkpoint returns: whole relations, and increments of those that have them.

        Args:
            cut: Frames that were given as `part`, and others.
            is_stored: Whether the store has these rows.
        """
        for name in self._states.keys() & cut.frames.keys():
            if self._states[name].compact is None:
                self._parts[name] = [cut.frames[name]]
                self._count(name, cut.counts[name])
            elif cut.counts[name]:
                self._parts[name].append(cut.frames[name])
            if not is_stored:
                self._changed.add(name)
            if len(self._parts[name]) > _MAX_INCREMENTS:
                self._compact(name)

    def _count(self, name: str, counts: Mapping[str, int]) -> None:
        for fact in self.facts[name]:
            self.facts[name][fact] = sum(count for digest, count in counts.items() if fact in digest.split(","))

    def to_commit(self) -> dict[str, DataFrame]:
        """Returns the state tables that changed since the last commit, by table name; increments are folded in."""
        return self._to_write([*self._changed])

    def to_write_through(self) -> dict[str, DataFrame]:
        """Returns the durable state tables that changed: nodes that crash now are to read them back."""
        return self._to_write([name for name in self._changed if self._states[name].is_durable])

    def _to_write(self, names: Sequence[str]) -> dict[str, DataFrame]:
        for name in names:
            self._compact(name)
        self._changed.difference_update(names)
        return {f"state_{name}": self._parts[name][0] for name in sorted(names)}

    def _compact(self, name: str) -> None:
        """Folds the increments of a relation into it."""
        compact = self._states[name].compact
        if compact is not None and len(self._parts[name]) > 1:
            self._fold(name, compact(union(self._parts[name])))

    def _fold(self, name: str, whole: DataFrame) -> DataFrame:
        """Checkpoints a relation that grows by increments; returns it."""
        cut = self._checkpoints.checkpoint({name: self.part(name, whole)})
        self._parts[name] = [cut.frames[name]]
        self._changed.add(name)
        return cut.frames[name]


def _without(frame: DataFrame, node: DataFrame) -> DataFrame:
    """Returns the rows of a relation that belong to other nodes than the given ones."""
    return frame.join(node.select(_NODE).hint("shuffle_hash"), _NODE, "left_anti")
