"""Scenarios of protocol repository: brokers b1 - b2 - b3, repositories at b1 and b2, a publisher, three subscribers."""

from __future__ import annotations

from typing import Any

from pipelines.testing import scenario

NEWS = "news"
TIMERS = {
    "publisher_rounds": 12, "failure_rounds": 60, "acknowledge_rounds": 6, "wait_rounds": 8, "nak_rounds": 10,
    "rectify_rounds": 25, "idle_rounds": 40, "assist_rounds": 60, "gossip_rounds": 8, "fetch_rounds": 10,
}  # fmt: skip
SUBSCRIBERS = ("s1", "s2", "s3")


def chain(**parts: Any) -> dict[str, Any]:
    """Returns a scenario with brokers b1 - b2 - b3, repositories at b1 and b2, p and s1 at b1, s2 at b2, s3 at b3.

    Args:
        parts: Parts of the scenario. ``published`` contains the rounds in which p publishes, or pairs of a publisher
            and a round. ``subscribed`` maps clients that do not subscribe in round 1 to the rounds of subscription.
    """
    published = [one if isinstance(one, tuple) else ("p", one) for one in parts.pop("published")]
    rounds_of = dict.fromkeys(SUBSCRIBERS, 1) | parts.pop("subscribed", {})
    subscribed = [{"at": name, "round": round_, "topic": NEWS} for name, round_ in rounds_of.items()]
    return scenario(
        protocol={"name": "repository", **TIMERS, **parts.pop("settings", {})},
        overlay={
            "links": [["b1", "b2"], ["b2", "b3"]],
            "servers": [{"name": "r1", "at": "b1"}, {"name": "r2", "at": "b2"}],
            "clients": [
                {"name": name, "at": at} for name, at in (("p", "b1"), ("s1", "b1"), ("s2", "b2"), ("s3", "b3"))
            ],
        },
        workload={
            "subscriptions": subscribed,
            "publications": [{"at": at, "round": round_, "topic": NEWS} for at, round_ in published],
            "calls": parts.pop("calls", []),
        },
        time={"rounds": parts.pop("rounds")},
        **parts,
    )


def lost(begin: int, end: int | None, src: str, dst: str, *kinds: str) -> dict[str, Any]:
    """Returns a fault that loses the messages of ``kinds``, by default all, from ``src`` to ``dst`` up to ``end``."""
    found = {"kind": "loss", "round": begin, "rate": 1.0, "links": [[src, dst]], "direction": "forward"}
    return found | ({"kinds": list(kinds)} if kinds else {}) | ({} if end is None else {"until": end})


def down(name: str, begin: int, end: int | None = None) -> dict[str, Any]:
    """Returns a fault: a node crashes in round ``begin`` and recovers in round ``end``; None: it does not recover."""
    return {"kind": "crash", "node": name, "round": begin} | ({} if end is None else {"until": end})


def calls(kind: str, name: str, round_: int, **of_call: Any) -> dict[str, Any]:
    """Returns a call as a part of a scenario."""
    return {"at": name, "round": round_, "kind": kind, **of_call}
