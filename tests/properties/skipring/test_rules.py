"""Rules that starts need: without one of them some do not become legitimate, or do not stay so."""

from __future__ import annotations

from typing import Any

import pytest
import support.skipring
from support.skipring import arbitrary_run

from udfs.nodes.context import Context
from udfs.skipring.messages import LIN, Introduce, IntroduceShortcut, RequestFor, SetData, send
from udfs.skipring.program import SkipRing
from udfs.skipring.state import Contact
from udfs.skipring.subscriber import Member
from udfs.skipring.supervisor import Supervision


def forward_shortcuts(self: Member, m: IntroduceShortcut) -> None:
    """Hands nodes without a slot to BuildRing, as the paper has it (against rule K2)."""
    old = self._own.short.get(m.label)
    if m.label in self._own.short:
        self._own.short[m.label] = m.node
    given = old if m.label in self._own.short else m.node
    if given is not None and m.node not in (old, self._ctx.node):
        self._linearize(Contact(given, m.label))


def merge_configuration(self: Member, m: SetData) -> None:
    """Merges a configuration with the neighbours that are there (against rule K3)."""
    for held in self._own.on_ring():
        if self._is_nearer(held, m):
            send(self._ctx, self._supervisor, RequestFor(m.topic, held.node))
    self._own.label = self._label
    self._sort()
    for one in (m.predecessor, m.successor):
        if one is not None:
            self.introduce(Introduce(m.topic, one.node, one.label, None, LIN))


def record_others(self: Supervision, subscriber: int, ctx: Context) -> None:
    """Records a subscriber that another one asks for (against rule K4)."""
    self.integrate(subscriber, "request", ctx)


def keep_silent(self: SkipRing, m: SetData, src: int, ctx: Context) -> None:
    """Does not answer a configuration where the topic is not wanted (against rule K4)."""
    own = self._own(m.topic)
    if own.wants and m.label is not None:
        Member(own, m.label, self._responsible(m.topic), ctx).configure(m)
    elif m.label is None:
        own.clear()


@pytest.mark.parametrize(
    ("cls", "name", "without", "has_crashes"),
    [
        (Member, "introduce_shortcut", forward_shortcuts, False),
        (Member, "configure", merge_configuration, True),
        (Supervision, "request_for", record_others, False),
        (SkipRing, "on_set_data", keep_silent, False),
    ],
    ids=["K2", "K3", "K4, requests by others", "K4, no topic"],
)
def test_some_start_fails_without(
    cls: type, name: str, without: Any, has_crashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support.skipring, "HORIZON_INTERVALS", 100)
    monkeypatch.setattr(cls, name, without)
    outcomes = (arbitrary_run(n, seed, has_crashes=has_crashes) for seed in range(30) for n in (4, 9))
    assert not all(one.is_right for one in outcomes)
