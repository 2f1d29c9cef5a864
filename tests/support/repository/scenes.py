"""Scenarios of protocol repository: brokers b1 - b2 - b3, repositories at the first two, a publisher, three clients."""

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
    """Returns brokers b1 - b2 - b3, repositories at the first two, p and s1 at b1, s2 at b2, s3 at b3."""
    subscribed = [{"at": name, "round": 1, "topic": NEWS} for name in SUBSCRIBERS]
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
            "publications": [{"at": "p", "round": round_, "topic": NEWS} for round_ in parts.pop("published")],
            "calls": parts.pop("calls", []),
        },
        time={"rounds": parts.pop("rounds")},
        **parts,
    )


def lost(begin: int, end: int | None, a: str, b: str, *kinds: str) -> dict[str, Any]:
    """Returns a fault: a link loses all that is sent on it for a while, or all of some kinds."""
    found = {"kind": "loss", "round": begin, "rate": 1.0, "links": [[a, b]]}
    return found | ({"kinds": list(kinds)} if kinds else {}) | ({} if end is None else {"until": end})
