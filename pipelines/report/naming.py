"""Which fields hold ids, in the bodies of messages and in states, where types do not say so."""

from __future__ import annotations

NODE_FIELDS = frozenset((
    "a", "acked", "askers", "assistant", "b", "broker", "brokers", "client", "clients", "contact", "dead", "declined",
    "dst", "edge", "failed", "first_hop", "gone", "heard", "holders", "initiator", "join_point", "joiner",
    "lost_parent", "members", "neighbour", "next_hop", "node", "node_id", "origin", "origin_path", "parent", "partner",
    "path", "peer", "publisher", "receiver", "recipient", "repository", "responsible", "sender", "source", "src",
    "subscriber", "supervisor", "target", "way",
))  # fmt: skip
"""A number, or a list of numbers, under one of these names is about nodes; the page shows their names."""
MESSAGE_FIELDS = frozenset(("added_trigger", "message_id", "removed_trigger", "trigger"))
"""A number under one of these names is the id of a message; the page says which it is."""
