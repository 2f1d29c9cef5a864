"""Protocol ``delta`` as the engine sees its node program, `udfs.delta.program`."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.nodes import NodeProtocol, Shown
from pipelines.protocols.delta.audits import AUDITS
from pipelines.protocols.delta.bound import BOUND
from pipelines.protocols.delta.tables import PROCESSING
from udfs.delta.program import Delta

_OF_RECIPIENT = ("path", "responsible", "is_confirmed", "is_reopened")


def _processing(message: DataFrame) -> DataFrame:
    """Returns the recipients of the messages in ProcessingLists: columns of `PROCESSING`."""
    row = message.selectExpr("*", "explode(recipients) as one")
    given = {"recipient": "one.key", **{name: f"one.value.{name}" for name in _OF_RECIPIENT}}
    types = {field.name: field.dataType.simpleString() for field in PROCESSING.schema}
    return row.selectExpr(*(f"cast({given.get(name, name)} as {types[name]}) as {name}" for name in PROCESSING.columns))


PROTOCOL = NodeProtocol(
    Delta,
    audits=AUDITS,
    bound=BOUND,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    shown=[Shown(PROCESSING, "processing_list", _processing)],
)
