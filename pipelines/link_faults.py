"""Link faults: what becomes of messages on their way, by what the scenario says of links and kinds of messages.

The faults of its round of sending decide about a message; what is under way when a fault begins comes through. Every
draw is a hash of the fault's salt (the run's seed and the fault's place in the scenario) and of the message: kind,
link, round of sending, the call that it serves, and its place among the messages that have all these in common. So a
draw depends on nothing else that happens, and what is lost at one rate is lost at every higher one.

On the driver the times of all faults are cut where any of them begins or ends, so that a message meets at most one row:
an array of the faults that may strike it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.faults.meeting import cut_times
from pipelines.materialise import Materialiser
from pipelines.tables import BIGINT, STRING

_FAULT = T.StructType([
    T.StructField("effect", STRING), T.StructField("kinds", T.ArrayType(STRING)), T.StructField("salt", BIGINT),
    T.StructField("rate", T.DoubleType()),
])  # fmt: skip
_SAME = "run_id, src, dst, kind, source, source_seq"
_PLACE = f"row_number() over (partition by {_SAME} order by message_id)"
_DRAW = f"xxhash64(kind, src, dst, sent_round, coalesce(source, -1), coalesce(source_seq, -1), {_PLACE}) as draw"
_UNIFORM = f"cast(shiftrightunsigned(xxhash64(f.salt, draw), 11) as double) * {2.0**-53!r}"
_STRUCK = f"(f.rate >= 1.0 or {_UNIFORM} < f.rate)"


class LinkFaults:
    """The link faults of all runs."""

    def __init__(self, fault: pa.Table, materialiser: Materialiser) -> None:
        """Cuts the times of the faults.

        Args:
            fault: `Inputs.link_fault`.
            materialiser: Keeps the faults.
        """
        is_on_link = pc.is_valid(fault["src"])
        self._on_link = _kept("link_fault", fault.filter(is_on_link), ("run_id", "src", "dst"), materialiser)
        self._anywhere = _kept("fault_anywhere", fault.filter(pc.invert(is_on_link)), ("run_id",), materialiser)

    @property
    def is_any(self) -> bool:
        """Whether any run has any."""
        return self._on_link is not None or self._anywhere is not None

    def strike(self, message: DataFrame, columns: Sequence[str], before: int) -> DataFrame:
        """Gives messages with their fate, as far as links decide it: ``lost_link`` or null.

        Args:
            message: Messages as in `network.in_flight_schema`, without the fate.
            columns: Their columns.
            before: How many of these stand before the fate.
        """
        drawn = message.selectExpr(*columns, _DRAW)
        met: list[str] = []
        for name, frame, keys in (
            ("on_link", self._on_link, ["run_id", "src", "dst"]), ("anywhere", self._anywhere, ["run_id"]),
        ):  # fmt: skip
            if frame is not None:
                drawn = _met(drawn, frame, [*columns, "draw", *met], keys, name)
                met.append(name)
        lost = " or ".join(f"coalesce(exists({name}, f -> {_may_strike('lose')} and {_STRUCK}), false)" for name in met)
        fate = f"case when src <> dst and ({lost}) then 'lost_link' end as fate"
        return drawn.selectExpr(*columns[:before], fate, *columns[before:])


def _may_strike(effect: str) -> str:
    return f"f.effect = '{effect}' and (f.kinds is null or array_contains(f.kinds, kind))"


def _met(message: DataFrame, faults: DataFrame, columns: list[str], keys: list[str], name: str) -> DataFrame:
    """Adds the faults that a message meets, null where it meets none."""
    renamed = faults.selectExpr(*(f"{key} as at_{key}" for key in keys), "round", "until", f"faults as {name}")
    at = " and ".join([*(f"{key} = at_{key}" for key in keys), "sent_round >= round and sent_round < until"])
    return message.join(renamed.hint("shuffle_hash"), F.expr(at), "left").selectExpr(*columns, name)


def _kept(name: str, fault: pa.Table, keys: tuple[str, ...], materialiser: Materialiser) -> DataFrame | None:
    """Keeps faults as `_met` reads them; None where there are none."""
    if not len(fault):
        return None
    key = [T.StructField(key, BIGINT, False) for key in (*keys, "round", "until")]
    schema = T.StructType([*key, T.StructField("faults", T.ArrayType(_FAULT))])
    return materialiser.load(name, cut_times(fault, keys, _FAULT.names), schema).frame
