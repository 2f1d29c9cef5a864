"""Clients, guarantees and key items that must be rejected, and scenarios that protocol ginger must reject."""

from __future__ import annotations

from support.malformed.case import HEAD, LINKS, refused as _case, refused_when_built as _build

_CLIENTS = LINKS[:-2] + ", clients: "
_GENERATED = LINKS[:-2] + ", clients: {generate: "
_PUBLISHED = LINKS + "workload: {publications: [{at: A, "
WRONG_CLIENTS = (
    _case(
        "a client at an unknown broker", _CLIENTS + "[{name: X, at: §D}]}\n", "the overlay has no broker 'D'", "allowed"
    ),
    _case("a client called like a broker", _CLIENTS + "[{name: §A, at: B}]}\n", "'A' is a broker", "no broker has"),
    _case(
        "two clients of one name", _CLIENTS + "[{name: X, at: A}, {name: §X, at: B}]}\n", "number 1", "each name once"
    ),
    _case("a client without a broker", _CLIENTS + "[§{name: X}]}\n", "at"),
    _case("a client's unknown key", _CLIENTS + "[{name: X, at: A, §edge: B}]}\n", "'edge'", "latency"),
    _case("a client's latency of zero", _CLIENTS + "[{name: X, at: A, latency: §0}]}\n", "from 1"),
    _case("no clients a broker", _GENERATED + "{per_broker: §0}}}\n", "from 1"),
    _case("an unknown guarantee", _PUBLISHED + "guarantee: §atomic}]}\n", "'atomic'", "eventual, causal, total"),
    _case("a key item twice", _PUBLISHED + "keys: [a, b, §a]}]}\n", "number 1", "each value once"),
    _case("key items that are no list", _PUBLISHED + "keys: §a}]}\n", "a list"),
    _case("an empty key item", _PUBLISHED + "keys: [§'']}]}\n", "1 to 1000 characters"),
    _case(
        "a call of an unknown client",
        _CLIENTS + "[{name: reader1, at: A}]}\nworkload: {publications: [{at: §reader2, topic: a}]}\n",
        "'reader2'",
        "'reader1'",
    ),
)

_GINGER = HEAD.replace("delta", "ginger") + "overlay: {links: [[A, B], [B, C]], clients: [{name: X, at: A}]}\n"
_SUBSCRIBED = _GINGER + "workload: {subscriptions: [{at: X, topic: t}], publications: ["
CLIENTS_NEED_BUILD = (
    _build("clients that clients are at", _GENERATED + "{at: §clients}}}\n", "no clients"),
    _build(
        "a generated client called like a broker", _GENERATED.replace("[A, B]", "[C1, B]") + "{prefix: §C}}}\n", "'C1'"
    ),
    _build(
        "clients where there are none",
        LINKS + "workload: {publications: {generate: {kind: topics, nodes: §clients}}}\n",
        "no clients",
        "overlay.clients",
    ),
    _build("ginger: an unknown root", _GINGER.replace("ginger}", "ginger, root: §D}"), "no broker 'D'"),
    _build(
        "ginger: a broker that subscribes",
        _GINGER + "workload: {subscriptions: [{at: §A, topic: t}]}\n",
        "a client (X)",
    ),
    _build(
        "ginger: a predicate", _GINGER + "workload: {subscriptions: [§{at: X, where: a > 1}]}\n", "not a topic alone"
    ),
    _build(
        "ginger: an unsubscription",
        _GINGER + "workload: {subscriptions: [{at: X, topic: t, until: §9}]}\n",
        "leave until",
    ),
    _build(
        "ginger: a subscription twice",
        _GINGER + "workload: {subscriptions: [{at: X, topic: t}, §{at: X, topic: t}]}\n",
        "number 1",
        "once",
    ),
    _build("ginger: no guarantee", _SUBSCRIBED + "§{at: X, topic: t, round: 50}]}\n", "eventual, causal, total"),
    _build(
        "ginger: no topic", _SUBSCRIBED + "§{at: X, round: 50, content: {x: 1}, guarantee: total}]}\n", "needs a topic"
    ),
    _build(
        "ginger: a topic without subscribers",
        _SUBSCRIBED + "{at: X, round: 50, topic: §u, guarantee: total}]}\n",
        "nobody subscribes to 'u'",
    ),
    _build(
        "ginger: a publication before the subscriptions stand",
        _SUBSCRIBED + "{at: X, round: §5, topic: t, guarantee: total}]}\n",
        "allowed: round 6 or later",
    ),
    _build(
        "ginger: a publication before the answers of a slow direction",
        _SUBSCRIBED.replace("[A, B]", "[A, B, 1, 30]") + "{at: X, round: §5, topic: t, guarantee: total}]}\n",
        "allowed: round 35 or later",
    ),
    _build(
        "ginger: a publisher outside the sub-tree",
        _SUBSCRIBED.replace("{name: X, at: A}", "{name: X, at: A}, {name: Y, at: C}")
        + "{at: §Y, round: 50, topic: t, guarantee: total}]}\n",
        "outside the sub-tree of 't'",
        "clients at A",
    ),
    _build(
        "ginger: an overlay that is joined from nothing",
        _GINGER.replace("overlay: {", "overlay: {start: §joining, "),
        "workload.joins",
    ),
    _build(
        "ginger: a broker with a client joins",
        _GINGER.replace("at: A}", "at: C}") + "workload: {joins: [{node: §C, to: B, round: 9}]}\n",
        "'C' has links to X as well",
    ),
    _build(
        "ginger: a join before the subscriptions stand",
        _GINGER + "workload: {joins: [{node: C, to: B, round: §5}], subscriptions: [{at: X, topic: t}]}\n",
        "allowed: 6 or later",
    ),
    _build("ginger: a crash of a client", _GINGER + "faults: §[{kind: crash, node: X, round: 5}]\n", "only brokers"),
    _build(
        "ginger: a timer shorter than answers take",
        _GINGER.replace("ginger}", "ginger, timer_rounds: §5}") + "faults: [{kind: crash, node: B, round: 5}]\n",
        "allowed: 6 or more",
    ),
    _build(
        "ginger: a timer shorter than answers over a slow direction take",
        _GINGER.replace("ginger}", "ginger, timer_rounds: §100}").replace("[A, B]", "[A, B, 1, 30]")
        + "faults: [{kind: crash, node: B, round: 5}]\n",
        "allowed: 180 or more",
    ),
)
