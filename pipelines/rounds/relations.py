"""A protocol's relations between rounds: whole ones, those that grow by increments, their facts, and who wakes when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame

from pipelines.contract.due import CrashesDue
from pipelines.contract.round import DataflowProtocol
from pipelines.engines.materialise.base import Facts, Materialiser, Relation

_MAX_INCREMENTS = 16
_NODE = ["run_id", "node_id"]
_WAKE = "{}__wake"
_FACT = "{}__fact_{}"
"""What facts are called in queries, apart from those of messages in flight."""


class Relations:
    """The state relations of one protocol that rounds read and write."""

    def __init__(self, protocol: DataflowProtocol, materialiser: Materialiser) -> None:
        """Starts without rows.

        Args:
            protocol: The protocol.
            materialiser: Keeps relations.
        """
        self._materialiser = materialiser
        self._states = {state.table.name: state for state in protocol.states}
        self._whole: dict[str, Relation] = {}
        self._increments: dict[str, list[Relation]] = {
            name: [] for name, state in self._states.items() if state.compact is not None
        }
        self._wakes: dict[str, int | None] = {}
        self._changed: set[str] = set()
        self.facts: dict[str, dict[str, int]] = {
            name: dict.fromkeys(state.facts, 0) for name, state in self._states.items()
        }
        materialiser.declare({name: state.table.schema for name, state in self._states.items()})

    @property
    def wakes(self) -> list[int]:
        """The rounds in which nodes wake, a relation each; those that are over say that nodes wake at once."""
        return [wake for wake in self._wakes.values() if wake is not None]

    def starting(self, given: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Returns a frame for each relation: the given ones, and the others without rows."""
        empty = self._materialiser.empty
        return {name: given.get(name, empty(state.table.schema)) for name, state in self._states.items()}

    def set_all(self, relations: Mapping[str, Relation], changed: Collection[str]) -> None:
        """Sets all relations.

        Args:
            relations: Every relation.
            changed: Those that the store does not have yet.
        """
        self._whole = dict(relations)
        self._changed |= set(changed)

    def wanted_facts(self, names: Collection[str]) -> dict[str, Facts]:
        """Returns the facts to ask for of those of the relations that are named."""
        return {
            name: {
                **{_FACT.format(name, fact): sql for fact, sql in state.facts.items()},
                **({} if state.wake is None else {_WAKE.format(name): state.wake}),
            }
            for name, state in self._states.items()
            if name in names
        }

    def take_facts(self, facts: Mapping[str, int | None]) -> None:
        """Notes the answers; what was not asked for stays."""
        for name, state in self._states.items():
            told = {fact: _FACT.format(name, fact) for fact in state.facts}
            self.facts[name] |= {fact: facts[asked] or 0 for fact, asked in told.items() if asked in facts}
            if _WAKE.format(name) in facts:
                self._wakes[name] = facts[_WAKE.format(name)]

    def frames(self) -> dict[str, DataFrame]:
        """Returns the relations as rounds read them."""
        return {
            name: self._materialiser.union(name, [relation, *self._increments.get(name, [])])
            for name, relation in self._whole.items()
        }

    def after_faults(
        self, crashes: CrashesDue, stored: Callable[[str], DataFrame], kept: list[Relation]
    ) -> tuple[dict[str, DataFrame], list[str]]:
        """Applies crashes and recoveries of a round.

        Args:
            crashes: Who crashes, and who recovers.
            stored: Returns a state table as it was written last.
            kept: Gets the relations that are made for the round alone.

        Returns:
            The relations as faults leave them, and the names of those that are still to be checkpointed for that.
        """
        state = self.frames()
        touched = []
        for name, known in self._states.items():
            if known.is_durable and crashes.recovered is not None:
                state[name] = self._read_back(name, state[name], crashes.recovered, stored, kept)
            elif not known.is_durable and crashes.crashed is not None:
                state[name] = _without(state[name], crashes.crashed)
            else:
                continue
            if known.compact is None:
                touched.append(name)
            else:
                state[name] = self._fold(name, known.compact(state[name]))
        return state, touched

    def _read_back(
        self, name: str, frame: DataFrame, recovered: DataFrame, stored: Callable[[str], DataFrame],
        kept: list[Relation],
    ) -> DataFrame:  # fmt: skip
        """Returns a durable relation in which recovered nodes have the rows that the store has of them.

        These are kept by themselves: Sail does not plan every union with columns that have comments.
        """
        node = recovered.select(_NODE).hint("shuffle_hash")
        rows = stored(f"state_{name}").join(node, _NODE, "left_semi")
        relation = self._materialiser.cache(f"stored_{name}", rows)
        kept.append(relation)
        return _without(frame, recovered).unionByName(relation.frame)

    def whole_frames(self, state: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Returns the relations of a round's result that are checkpointed whole: those without increments."""
        return {name: frame for name, frame in state.items() if name not in self._increments}

    def take(self, state: Mapping[str, DataFrame], made: Mapping[str, Relation]) -> None:
        """Takes over what a round made.

        Args:
            state: The relations that it changed; of those with increments the increment.
            made: The others of them, as relations.
        """
        self._changed |= set(state)
        for name, relation in made.items():
            self._whole[name].release()
            self._whole[name] = relation
        for name in state.keys() & self._increments.keys():
            self._increments[name].append(self._materialiser.append(name, state[name]))
            if len(self._increments[name]) >= _MAX_INCREMENTS:
                self._compact(name)

    def to_commit(self) -> dict[str, DataFrame]:
        """Returns the state tables that changed since the last commit, by table name; increments are folded in."""
        for name in self._increments:
            self._compact(name)
        state = {f"state_{name}": self._whole[name].frame for name in sorted(self._changed)}
        self._changed.clear()
        return state

    def to_write_through(self) -> dict[str, DataFrame]:
        """Returns the durable state tables that changed: nodes that crash now are to read them back."""
        durable: Sequence[str] = [name for name in sorted(self._changed) if self._states[name].is_durable]
        for name in durable:
            self._compact(name)
        self._changed.difference_update(durable)
        return {f"state_{name}": self._whole[name].frame for name in durable}

    def _compact(self, name: str) -> None:
        """Folds the increments of a relation into it."""
        compact = self._states[name].compact
        if compact is None or not self._increments[name]:
            return
        whole = self._materialiser.union(name, [self._whole[name], *self._increments[name]])
        self._fold(name, compact(whole))

    def _fold(self, name: str, whole: DataFrame) -> DataFrame:
        """Checkpoints a relation that grows by increments; returns it."""
        folded = self._materialiser.checkpoint({name: whole}, {})[0][name]
        self._whole[name].release()
        self._whole[name] = folded
        for increment in self._increments[name]:
            increment.release()
        self._increments[name].clear()
        self._changed.add(name)
        return folded.frame


def _without(frame: DataFrame, node: DataFrame) -> DataFrame:
    """Returns the rows of a relation that belong to other nodes than the given ones."""
    return frame.join(node.select(_NODE).hint("shuffle_hash"), _NODE, "left_anti")
