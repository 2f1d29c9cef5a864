"""What nodes keep and send can be kept in columns: nothing changes on the way there and back."""

from __future__ import annotations

from typing import Any

from support.repository.schedules import drawn

from udfs.nodes.records import spec_of


def again(row: Any) -> Any:
    """Returns a record or message as it comes back from its columns."""
    fields = {}
    for name, kind in spec_of(type(row)).types.items():
        value = getattr(row, name)
        kept = value if kind.encode is None else kind.encode(value)
        fields[name] = kept if kind.decode is None else kind.decode(kept)
    return type(row)(**fields)


def test_state_and_messages_are_columns() -> None:
    schedule = drawn(3)
    network = schedule.network()
    n_rows = 0
    for round_ in range(0, 300, 20):
        network.play(round_)
        for one in schedule.nodes:
            if one.node in network.up:
                program = network.node(one.node)
                for name, declared in program.declared.items():
                    rows = declared.rows(getattr(program, name))
                    assert [again(row) for row in rows] == list(rows)
                    assert declared.value(rows) == getattr(program, name)
                    n_rows += len(rows)
    assert n_rows > 1000
    messages = [one.message for one in network.rows.handled]
    assert len({type(one) for one in messages}) > 15
    assert [again(one) for one in messages] == messages
