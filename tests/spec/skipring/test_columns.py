"""What nodes keep and send fits into columns, and comes back from them as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from support.skipring import INTERVAL, TOPIC, network, sent

from udfs.nodes.records import spec_of
from udfs.skipring.messages import MESSAGES
from udfs.skipring.program import SkipRing


def again(rows: Iterable[Any]) -> list[Any]:
    """Returns records or messages as they come back from columns."""
    made = []
    for row in rows:
        values = {}
        for name, kind in spec_of(type(row)).types.items():
            value = getattr(row, name)
            kept = pa.array([kind.encode(value) if kind.encode else value], kind.arrow).to_pylist()[0]
            values[name] = kind.decode(kept) if kind.decode else kept
        made.append(type(row)(**values))
    return made


@pytest.mark.parametrize("name", SkipRing.declared)
def test_state(name: str) -> None:
    played, declared, n_rows = (
        network(6, n_others=2, start="arbitrary", start_publications=4),
        SkipRing.declared[name],
        0,
    )
    played.crash(3, 2)
    for round_ in (0, 3 * INTERVAL):
        played.play(round_)
        for program in played.up.values():
            rows = declared.rows(getattr(program, name))
            assert again(rows) == list(rows)
            assert declared.value(again(rows)) == getattr(program, name)
            n_rows += len(rows)
    added = [row for _, row in played.rows.appended[name]]
    assert again(added) == added
    assert n_rows + len(added)


def test_messages() -> None:
    played = network(6, n_others=2, start="arbitrary", start_publications=4, seed=2)
    played.call(2, "publish", 5, topic=TOPIC)
    played.call(3, "unsubscribe", 5, subscription_id=3)
    played.play(20 * INTERVAL)
    messages = [one.message for one in sent(played)]
    assert {type(one) for one in messages} == {*MESSAGES}
    assert again(messages) == messages
