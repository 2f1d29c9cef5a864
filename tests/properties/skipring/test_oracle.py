"""A plain program, written from the protocol's page, does in each round what the node program does."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.skipring_agreement import STARTS, DisagreementError, compare, drawn

from udfs.nodes.context import Context
from udfs.skipring import messages as ms
from udfs.skipring.messages import send
from udfs.skipring.program import SkipRing
from udfs.skipring.state import Contact, Neighbour, Subscription
from udfs.skipring.subscriber import Member
from udfs.skipring.supervisor import Supervision
from udfs.skipring.trie import Publication

N_RUNS = 84
N_PLANTED = 48


@dataclass
class Seen:
    """What the runs have seen, and where the programs disagree."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def play(self, seed: int) -> None:
        setup = drawn(seed)
        try:
            played, _ = compare(setup)
        except DisagreementError as error:
            self.disagreements.append(str(error))
            return
        self.counts[f"start {setup.settings['start']}"] += 1
        self.counts["several supervisors"] += len(setup.supervisors) > 1
        self.counts["crashes"] += len(setup.crashes)
        self.counts["recoveries"] += sum(one.end_round is not None for one in setup.crashes)
        self.counts["deliveries"] += len(played.rows.delivered)
        self.counts.update(call.kind for call in setup.calls if call.round)
        for one in played.rows.handled:
            why = getattr(one.message, "reason", getattr(one.message, "flag", ""))
            self.counts[f"{one.kind} {why}".strip()] += 1


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Seen:
    found = Seen()
    for seed in range(max(N_RUNS, request.config.getoption("schedules") or 0)):
        found.play(seed)
    return found


def test_both_agree_round_by_round(seen: Seen) -> None:
    assert seen.disagreements == []


def test_the_runs_have_seen_every_start_message_and_reason(seen: Seen) -> None:
    starts = {f"start {start}" for start in STARTS}
    reasons = {f"GetConfiguration {reason}" for reason in ("label", "minimum", "silence")}
    configurations = {f"SetData {why}" for why in ("round_robin", "subscribe", "request", "moved", "leave")}
    introductions = {f"Introduce {flag}" for flag in (ms.LIN, ms.CYC, ms.COR)}
    kinds = {one.__name__ for one in ms.MESSAGES} - {"GetConfiguration", "SetData", "Introduce"}
    events = {"subscribe", "unsubscribe", "publish", "crashes", "recoveries", "deliveries", "several supervisors"}
    wanted = starts | reasons | configurations | introductions | kinds | events | {"NODE_DOWN"}
    assert {one for one in wanted if seen.counts[one] < 5} == set()


def record_others(self: Supervision, subscriber: int, ctx: Context) -> None:
    """Records a subscriber that another one asks for."""
    self.integrate(subscriber, "request", ctx)


def keep_label(self: Member, u: Contact) -> None:
    """Believes no neighbour's word on its own label."""
    for one in self._own.on_ring():
        one.silent = 0 if one.node == u.node else one.silent


def never_farther(self: Member, one: Neighbour, m: ms.SetData) -> bool:
    """Has no old neighbour asked for."""
    return False


def forget_shortcut(self: Member, m: ms.IntroduceShortcut) -> None:
    """Says nothing to a node that loses its slot."""
    if m.label in self._own.short and m.node != self._ctx.node:
        self._own.short[m.label] = m.node


def ignore_removal(self: SkipRing, m: ms.Remove, src: int, ctx: Context) -> None:
    """Keeps what is to be removed."""


def flood_back(self: SkipRing, own: Subscription, one: Publication, sender: int | None, ctx: Context) -> None:
    """Sends a publication to where it came from, too."""
    for node in own.neighbours():
        new = ms.PublishNew(own.topic, one.key, one.source, one.source_seq, one.issued_round, one.hops + 1)
        send(ctx, node, new)


@pytest.mark.parametrize(
    ("cls", "name", "broken"),
    [
        (Supervision, "request_for", record_others),
        (Member, "_update_neighbour", keep_label),
        (Member, "_is_nearer", never_farther),
        (Member, "introduce_shortcut", forget_shortcut),
        (SkipRing, "on_remove", ignore_removal),
        (SkipRing, "_flood", flood_back),
    ],
    ids=["RequestFor", "labels", "action (iii)", "IntroduceShortcut", "Remove", "PublishNew"],
)
def test_a_broken_action_is_found(cls: type, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cls, name, broken)
    found = Seen()
    for seed in range(N_PLANTED):
        found.play(seed)
        if found.disagreements:
            return
    pytest.fail(f"{N_PLANTED} runs agree")
