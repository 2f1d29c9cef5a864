"""Link faults: what becomes of messages on their way, by what the scenario says of links and kinds of messages.

The faults of its round of sending decide about a message; what is under way when a fault begins comes through. Every
draw is a hash of the fault's salt (the run's seed and the fault's place in the scenario) and of the message: kind,
link, round of sending, the call that it serves, and its place among the messages that have all these in common. So a
draw depends on nothing else that happens, and what is lost at one rate is lost at every higher one.

On the driver the times of all faults are cut where any of them begins or ends, so that a message meets at most one row:
an array of the faults that may strike it. What they do, in this order:

1. *duplicate*: the message and a copy of it go on, each by itself; the copy's id is the next one;
2. *reorder*, *delay*: it is due later; of several delays the longest counts. A delay in order is drawn for each sender,
   receiver and round of sending: with d(s) rounds drawn for round s, what is sent in round r takes max over s <= r of
   d(s) - (r - s) rounds longer, and so waits for what was sent before;
3. *lose*: it is lost; so it is where a partition has its ends on different sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.contract.draws_sql import as_uniform
from pipelines.contract.ordering import row_number
from pipelines.engines.materialise.base import Materialiser
from pipelines.inputs.faults.overlaps import cut_times
from pipelines.tables import BIGINT, STRING

_LINK_KEYS, _RUN_KEYS = ("run_id", "src", "dst"), ("run_id",)
_LONGS = ("salt", "low", "high", "first_round", "last_round")
_FAULT = T.StructType([
    T.StructField("effect", STRING), T.StructField("kinds", T.ArrayType(STRING)), T.StructField("rate", T.DoubleType()),
    *(T.StructField(name, BIGINT) for name in _LONGS),
])  # fmt: skip
_SIDE = T.StructType([
    T.StructField(name, BIGINT, False) for name in ("run_id", "node_id", "round", "end_round", "side")
])  # fmt: skip
_SAME = "run_id, src, dst, kind, source, source_seq"
_PLACE = row_number("messages alike", _SAME, "message_id")
_DRAW = f"xxhash64(kind, src, dst, sent_round, coalesce(source, -1), coalesce(source_seq, -1), {_PLACE}) as draw"


def _struck(*keys: str) -> str:
    """Returns SQL for whether fault ``f`` strikes what the keys name."""
    drawn = as_uniform(f"xxhash64(f.salt, {', '.join(keys)})")
    return f"(f.rate >= 1 or {drawn} < f.rate)"


def _rounds(*keys: str) -> str:
    """Returns SQL for the rounds that fault ``f`` draws for what the keys name, if it strikes that; else 0."""
    drawn = f"f.low + pmod(xxhash64(f.salt, {', '.join(keys)}, 1L), f.high - f.low + 1)"
    return f"case when {_struck(*keys)} then {drawn} else 0L end"


_IN_ORDER = f"""array_max(transform(sequence(0L, f.high), k ->
  case when sent_round - k between f.first_round and f.last_round
    then ({_rounds("src", "dst", "sent_round - k")}) - k else 0L end))"""
_LATER = f"""coalesce(greatest(array_max(transform(faults, f ->
  case f.effect when 'reorder' then {_rounds("draw")} when 'delay' then {_IN_ORDER} else 0L end)), 0L), 0L)"""
_IS_TWICE = f"exists(faults, f -> f.effect = 'duplicate' and {_struck('draw')})"
_AFTER = f"array_max(transform(faults, f -> case f.effect when 'duplicate' then {_rounds('draw')} else 0L end))"
_IS_LOST = f"coalesce(exists(faults, f -> f.effect = 'lose' and {_struck('draw')}), false)"


class LinkFaults:
    """The link faults of all runs.

    Attributes:
        on_link: ``run_id, src, dst, round, end_round, faults``: those of a link, cut into times; None: there are none.
        anywhere: ``run_id, round, end_round, faults``: those of all links; None: there are none.
        sides: ``run_id, node_id, round, end_round, side``: the sides of partitions; None: there are none.
        duplicating: The ids of the runs in which a message may arrive twice: there every other message id is free for
            copies. A run's ids do not depend on the other runs of its job.
    """

    def __init__(self, fault: pa.Table, side: pa.Table, materialiser: Materialiser) -> None:
        """Cuts the times of the faults.

        Args:
            fault: `Inputs.link_fault`.
            side: `Inputs.side`.
            materialiser: Keeps the faults.
        """
        is_on_link = pc.is_valid(fault["src"])
        self.on_link = _cut(fault.filter(is_on_link), _LINK_KEYS)
        self.anywhere = _cut(fault.filter(pc.invert(is_on_link)), _RUN_KEYS)
        self.sides = side.select(_SIDE.names) if len(side) else None
        self._materialiser = materialiser
        self._effects = set(pc.unique(fault["effect"]).to_pylist())
        self.duplicating = pc.unique(fault.filter(pc.equal(fault["effect"], "duplicate"))["run_id"])

    @property
    def is_any(self) -> bool:
        """Whether any run has any."""
        return bool(self._effects) or self.sides is not None

    @cached_property
    def _frames(self) -> Mapping[str, tuple[DataFrame, tuple[str, ...]]]:
        """The faults as frames, each with its keys, by the name of what a message meets."""
        found = (("on_link", self.on_link, _LINK_KEYS), ("anywhere", self.anywhere, _RUN_KEYS))
        return {
            name: (self._materialiser.load(f"fault_{name}", rows, _cut_schema(keys)).frame, keys)
            for name, rows, keys in found if rows is not None
        }  # fmt: skip

    @cached_property
    def _side(self) -> DataFrame | None:
        return None if self.sides is None else self._materialiser.load("side", self.sides, _SIDE).frame

    @property
    def may_duplicate(self) -> bool:
        """Whether a message may arrive twice in any run."""
        return "duplicate" in self._effects

    def strike(self, message: DataFrame, columns: Sequence[str], before: int) -> DataFrame:
        """Returns messages with their fate, as far as links decide it: ``lost_link`` or null.

        Args:
            message: Messages as in `network.in_flight_schema`, without the fate.
            columns: Their columns.
            before: How many of these stand before the fate.
        """
        is_lost = []
        if self._effects:
            message = self._met(message, list(columns))
            is_lost.append(_IS_LOST)
        if self.may_duplicate:
            message = _with_copies(message, columns)
        if not self._effects.isdisjoint(("delay", "reorder")):
            later = message.selectExpr(*columns, "faults", "draw", f"{_LATER} as later")
            message = later.selectExpr(*_postpone(columns, "later"), "faults", "draw")
        if self._side is not None:
            kept = [*columns, "faults", "draw"] if self._effects else list(columns)
            message = _with_sides(message, self._side, kept)
            is_lost.append("coalesce(src_side <> dst_side, false)")
        fate = f"case when src <> dst and ({' or '.join(is_lost)}) then 'lost_link' end as fate"
        return message.selectExpr(*columns[:before], fate, *columns[before:])

    def _met(self, message: DataFrame, columns: list[str]) -> DataFrame:
        """Adds the faults that each message meets, and what its draws are for; null where it meets none."""
        message, met = message.selectExpr(*columns, _DRAW), list[str]()
        for name, (frame, keys) in self._frames.items():
            message = _at_its_time(message, frame, [*columns, "draw", *met], [*keys], name)
            met.append(name)
        every = met[0] if len(met) == 1 else f"coalesce(concat({', '.join(met)}), {', '.join(met)})"
        strikes = f"filter({every}, f -> f.kinds is null or array_contains(f.kinds, kind))"
        return message.selectExpr(*columns, f"case when src <> dst then {strikes} end as faults", "draw")


def _postpone(columns: Sequence[str], rounds: str) -> list[str]:
    changed = {name: f"{name} + {rounds} as {name}" for name in ("due_round", "remaining_rounds")}
    return [changed.get(name, name) for name in columns]


def _with_copies(message: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Adds the copies of messages that arrive twice; each draws by itself from here on."""
    both = f"explode(case when {_IS_TWICE} then array(0L, 1L) else array(0L) end) as copy"
    twice = message.selectExpr(*columns, "faults", "draw", f"{_AFTER} as after", both)
    changed = [
        "message_id + copy as message_id" if name == "message_id" else name
        for name in _postpone(columns, "case copy when 1L then after else 0L end")
    ]
    return twice.selectExpr(*changed, "faults", "case copy when 1L then xxhash64(draw, copy) else draw end as draw")


def _with_sides(message: DataFrame, side: DataFrame, columns: list[str]) -> DataFrame:
    """Adds the sides of partitions on which sender and receiver are."""
    for end in ("src", "dst"):
        at = side.withColumnRenamed("node_id", end)
        message = _at_its_time(message, at, columns, ["run_id", end], f"{end}_side", "side")
        columns = [*columns, f"{end}_side"]
    return message


def _at_its_time(
    message: DataFrame, rows: DataFrame, columns: list[str], keys: list[str], name: str, value: str = "faults"
) -> DataFrame:
    """Adds a value that holds for the keys in the round of sending, null where there is none."""
    renamed = rows.selectExpr(*(f"{key} as at_{key}" for key in keys), "round", "end_round", f"{value} as {name}")
    at = " and ".join([*(f"{key} = at_{key}" for key in keys), "sent_round >= round and sent_round < end_round"])
    return message.join(renamed.hint("shuffle_hash"), F.expr(at), "left").selectExpr(*columns, name)


def _cut(fault: pa.Table, keys: tuple[str, ...]) -> pa.Table | None:
    """Returns faults cut into times, see `_cut_schema`; None where there are none."""
    return cut_times(fault, keys, _FAULT.names) if len(fault) else None


def _cut_schema(keys: tuple[str, ...]) -> T.StructType:
    key = [T.StructField(key, BIGINT, False) for key in (*keys, "round", "end_round")]
    return T.StructType([*key, T.StructField("faults", T.ArrayType(_FAULT))])
