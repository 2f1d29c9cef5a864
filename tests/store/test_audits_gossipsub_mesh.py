"""Each audit of meshes, peers and pushes in protocol gossipsub finds the violations of its rule, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import LATER, Case, case, fault, lines, store_of
from support.copies import Planting
from support.gossipsub import RUNS, A, B, C, D, E, F, G, issued, mesh, message, sent, state

from pipelines.store.store import Store
from pipelines.testing import Change, added, removed, replaced


def backoff(until: int, *nodes: int) -> str:
    """Returns SQL for the backoffs of nodes."""
    rows = (f"named_struct('key', cast({node} as bigint), 'value', cast({until} as bigint))" for node in nodes)
    return f"array({', '.join(rows)})"


def subscribed(node: int, round_: int) -> dict[str, Change]:
    """Returns the changes that add a subscription of a node."""
    issued = added(run_id=0, subscription_id=99, subscriber=node, predicate="topic = 'a'", issued_round=round_)
    return {
        "subscription": issued,
        "predicate": added(run_id=0, subscription_id=99, attribute="topic", op="=", text="a"),
    }


JOINED: dict[str, Any] = {"topic": "a", "is_joined": True}
CROSSING = [message("PRUNE", "A", "D", 400, topic="a", backoff_rounds=2), message("GRAFT", "D", "A", 400, topic="a")]
"""A GRAFT crosses a PRUNE on its way, and arrives one round before the end of the backoff."""
LEAVES = "250 G -: leaves topic a without PRUNE to node 4, which is in the mesh since round 144"


def again(round_: int) -> Change:
    """Returns the change that adds a push of A2 from B to E."""
    return message("PUB", "B", "E", round_, of="A2", topic="a", fate="duplicate")


CASES: dict[str, Case] = {
    # backoff: E leaves in round 110, and unsubscribe_backoff is 2
    "the sender of a PRUNE grafts 29 rounds later": case(
        "members", {"backoff": "139 E -: grafts node 1 after PRUNE in round 110"},
        message=message("GRAFT", "E", "B", 139, topic="a"),
    ),
    "the sender of a PRUNE grafts 30 rounds later": case(
        "members", {}, message=message("GRAFT", "E", "B", 140, topic="a"),
    ),
    "the receiver of a PRUNE grafts 29 rounds later": case(
        "members", {"backoff": "140 B -: grafts node 4 after PRUNE in round 111"},
        message=message("GRAFT", "B", "E", 140, topic="a"),
    ),
    "the receiver of a PRUNE grafts 30 rounds later": case(
        "members", {}, message=message("GRAFT", "B", "E", 141, topic="a"),
    ),
    "a node grafts in a backoff from before its crash": case(
        "members", {}, message=message("GRAFT", "B", "C", 90, topic="a"), fault_event=fault("crash", 60, B, 61),
    ),
    "a node grafts in a backoff from before its pause": case(
        "members", {"backoff": "140 B -: grafts node 4 after PRUNE in round 111"},
        message=message("GRAFT", "B", "E", 140, topic="a"), fault_event=fault("pause", 120, B, 121),
    ),
    "a node grafts in a backoff of another topic": case(
        "members", {}, message=message("GRAFT", "B", "C", 90, topic="b"),
    ),
    # refuses_in_backoff
    "no PRUNE answers a GRAFT in the backoff": case(
        "flood", {"refuses_in_backoff": "401 A -: does not refuse the GRAFT of node 3 within its backoff"},
        message=CROSSING,
    ),
    "a PRUNE of another topic answers a GRAFT in the backoff": case(
        "flood", {"refuses_in_backoff": "401 A -: does not refuse the GRAFT of node 3 within its backoff"},
        message=[*CROSSING, message("PRUNE", "A", "D", 401, topic="b", backoff_rounds=2)],
    ),
    "a PRUNE answers a GRAFT in the backoff": case(
        "flood", {}, message=[*CROSSING, message("PRUNE", "A", "D", 401, topic="a", backoff_rounds=2)],
    ),
    "a GRAFT arrives when the backoff ends": case(
        "flood", {}, message=[
            message("PRUNE", "A", "D", 400, topic="a", backoff_rounds=1), message("GRAFT", "D", "A", 400, topic="a")],
    ),
    "a GRAFT arrives in a backoff from before a crash": case(
        "flood", {}, fault_event=fault("crash", 400, A, 401), message=CROSSING,
    ),
    "a GRAFT arrives in a backoff from before a pause": case(
        "flood", {"refuses_in_backoff": "401 A -: does not refuse the GRAFT of node 3 within its backoff"},
        fault_event=fault("pause", 400, A, 401), message=CROSSING,
    ),
    "a GRAFT arrives in a backoff after the node has left": case(
        "members", {}, message=message("GRAFT", "B", "E", 110, topic="a"),
    ),
    # refuses_when_full: d_hi is 3, and A has B, C and D in its mesh
    "no PRUNE answers a GRAFT to a full mesh": case(
        "flood",
        {"refuses_when_full": "428 A -: does not refuse the GRAFT of node 5, and has 3 neighbours in the mesh"},
        message=message("GRAFT", "F", "A", 425, 428, topic="a"),
    ),
    "no PRUNE answers a GRAFT to a full mesh after a refused one": case(
        "flood",
        {"refuses_when_full": "431 A -: does not refuse the GRAFT of node 5, and has 3 neighbours in the mesh"},
        message=[message("GRAFT", "F", "A", 425, 428, topic="a"),
                 message("PRUNE", "A", "F", 428, 431, topic="a", backoff_rounds=0),
                 message("GRAFT", "F", "A", 428, 431, topic="a")],
    ),
    "a PRUNE answers a GRAFT to a full mesh": case(
        "flood", {}, message=[message("GRAFT", "F", "A", 425, 428, topic="a"),
                              message("PRUNE", "A", "F", 428, 431, topic="a", backoff_rounds=40)],
    ),
    "a GRAFT arrives over an outbound connection": case(
        "flood", {}, message=[message("GRAFT", "G", "D", 424, topic="a"), message("GRAFT", "F", "D", 427, topic="a")],
    ),
    "a GRAFT of a neighbour in the mesh arrives": case(
        "flood", {}, message=message("GRAFT", "B", "A", 427, topic="a"),
    ),
    "a GRAFT to a full mesh arrives after a fault of its sender": case(
        "flood", {}, message=message("GRAFT", "F", "A", 425, 428, topic="a"), fault_event=fault("pause", 428, F, 429),
    ),
    "a GRAFT to a full mesh arrives before a fault of its sender": case(
        "flood",
        {"refuses_when_full": "428 A -: does not refuse the GRAFT of node 5, and has 3 neighbours in the mesh"},
        message=message("GRAFT", "F", "A", 425, 428, topic="a"), fault_event=fault("pause", 429, F, 430),
    ),
    # pushes_over_mesh
    "a push without a GRAFT": case(
        "flood", {"pushes_over_mesh": "64 G A2: pushed to node 1, and no GRAFT came from there or went there"},
        message=message("PUB", "G", "B", 64, 66, of="A2", topic="a", fate="duplicate"),
    ),
    "a push to a node that has refused": case(
        "flood", {"pushes_over_mesh": "62 F A2: pushed to node 4, which left the mesh in round 1"},
        message=message("PUB", "F", "E", 62, of="A2", topic="a", fate="duplicate"),
    ),
    "a push to a refused node": case(
        "flood", {"pushes_over_mesh": "62 E A2: pushed to node 5, which left the mesh in round 0"},
        message=message("PUB", "E", "F", 62, of="A2", topic="a", fate="duplicate"),
    ),
    "a push in the round of the PRUNE": case(
        "members", {}, message=message("PUB", "E", "D", 110, of="C9", topic="a", fate="lost_crash"),
    ),
    "a push after the PRUNE": case(
        "members", {"pushes_over_mesh": "111 E C9: pushed to node 3, which left the mesh in round 110"},
        message=message("PUB", "E", "D", 111, of="C9", topic="a", fate="lost_crash"),
    ),
    # pushes_once: B has pushed A2 to E in round 61
    "a second push": case(
        "flood", {"pushes_once": "62 B A2: pushed to node 4, and before that in round 61"}, message=again(62),
    ),
    "a second push of the publisher": case(
        "flood", {"pushes_once": "100 A A2: pushed to node 1, and before that in round 60"},
        message=message("PUB", "A", "B", 100, of="A2", topic="a", fate="duplicate"),
    ),
    "a third push": case(
        "flood", {"pushes_once": ["70 B A2: pushed to node 4, and before that in round 61",
                                  "80 B A2: pushed to node 4, and before that in round 70"]},
        message=[again(70), again(80)],
    ),
    "a second push in the round of the first": case(
        "flood", {"pushes_once": "61 B A2: pushed to node 4 2 times in this round"}, message=again(61),
    ),
    "a second push in the round of the first, and a link fault duplicates messages": case(
        "flood", {}, message=again(61), fault_event=fault("duplicate", 61),
    ),
    "a second push in the round of the first, and a link fault duplicates messages later": case(
        "flood", {"pushes_once": "61 B A2: pushed to node 4 2 times in this round"},
        message=again(61), fault_event=fault("duplicate", 62),
    ),
    "a second push, and a link fault duplicates messages": case(
        "flood", {"pushes_once": "62 B A2: pushed to node 4, and before that in round 61"},
        message=again(62), fault_event=fault("duplicate", 0),
    ),
    "a second push before the node forgets the id": case(
        "flood", {"pushes_once": "180 B A2: pushed to node 4, and before that in round 61"},
        message=again(180),
    ),
    "a second push after the node has forgotten the id": case("flood", {}, message=again(181)),
    "a second push after a crash of the receiver": case(
        "flood", {"pushes_once": "110 B A2: pushed to node 4, and before that in round 61"},
        message=[again(110), *(message("HELLO", "E", to, 104, topics=["a"]) for to in "BDFG")],
        fault_event=fault("crash", 100, E, 104),
    ),
    "a second push before a crash": case(
        "flood", {"pushes_once": "99 B A2: pushed to node 4, and before that in round 61"},
        message=[again(99), *(message("HELLO", "B", to, 104, topics=["a"]) for to in "ACEG")],
        fault_event=fault("crash", 100, B, 104),
    ),
    "a second push after a crash": case(
        "flood", {}, fault_event=fault("crash", 100, B, 104),
        message=[again(104), *(message("HELLO", "B", to, 104, topics=["a"]) for to in "ACEG")],
    ),
    # pushes_to_mesh
    "a node does not push to its mesh": case(
        "flood", {"pushes_to_mesh": "61 B A2: is not pushed to node 2, which is in the mesh since round -1"},
        message=removed(sent("PUB", B, C, 61)),
    ),
    "a publisher does not push to its mesh": case(
        "members", {"pushes_to_mesh": "60 A A2: is not pushed to node 3, which is in the mesh since round 3"},
        message=removed(sent("PUB", A, D, 60)),
    ),
    "a publisher does not push to its mesh after a fault there": case(
        "members", {}, message=removed(sent("PUB", A, D, 60)), fault_event=fault("pause", 55, D, 56),
    ),
    "a publisher does not push to its mesh before a fault there": case(
        "members", {"pushes_to_mesh": "60 A A2: is not pushed to node 3, which is in the mesh since round 3"},
        message=removed(sent("PUB", A, D, 60)), fault_event=fault("pause", 61, D, 62),
    ),
    # prunes_when_leaving
    "no PRUNE of a node that leaves": case(
        "members",
        {"prunes_when_leaving": LEAVES},
        message=removed(sent("PRUNE", G, E, 250)),
    ),
    "no PRUNE of a node that has another subscription": case(
        "members", {}, message=removed(sent("PRUNE", G, E, 250)), **subscribed(G, 240),
    ),
    "no PRUNE of a node that leaves after a fault of the neighbour": case(
        "members", {}, message=removed(sent("PRUNE", G, E, 250)), fault_event=fault("pause", 250, E, 251),
    ),
    "no PRUNE of a node that leaves before a fault of the neighbour": case(
        "members",
        {"prunes_when_leaving": LEAVES},
        message=removed(sent("PRUNE", G, E, 250)), fault_event=fault("pause", 251, E, 252),
    ),
    # grafts_when_joining: F would know A, C, D and E in round 500, and d is 2
    **{
        f"a node that joins sends {len(to)} GRAFT, with {len(faults)} faults": case(
            "members", found, fault_event=[one for of in faults for one in fault(*of)],
            message=[message("GRAFT", "F", one, 500, topic="a") for one in to], **subscribed(F, 500),
        )
        for to, found, faults in (
            ("", {"grafts_when_joining": "500 F -: joins topic a, knows 4 neighbours of the topic, and grafts 0"}, []),
            ("A", {"grafts_when_joining": "500 F -: joins topic a, knows 4 neighbours of the topic, and grafts 1"}, []),
            ("AC", {}, []),
            ("", {}, [("pause", 500, F)]),
            ("A", {"grafts_when_joining": "500 F -: joins topic a, knows 4 neighbours of the topic, and grafts 1"},
             [("pause", 501, F)]),
        )
    },
    **{
        f"a node that joins grafts the only neighbour {name}": case(
            "members", {"grafts_when_joining": "500 F -: joins topic a, knows 4 neighbours of the topic, and grafts 1"}
            if is_found else {}, **changes, **subscribed(F, 500),
        )
        for name, is_found, changes in (
            ("whose announcement has arrived", False, {"message": [
                message("GRAFT", "F", "E", 500, topic="a"),
                replaced(f"kind = 'ANNOUNCE' and dst = {F} and src in ({A}, {C}, {D})", fate="'lost_link'")]}),
            ("without a backoff", False, {"message": [
                message("GRAFT", "F", "E", 500, topic="a"),
                *(message("PRUNE", "F", to, 500, 503, topic="a", backoff_rounds=9) for to in "ACD")]}),
            ("without a fault", False, {"message": message("GRAFT", "F", "E", 500, topic="a"),
                                        "fault_event": [one for of in (A, C, D) for one in fault("pause", 500, of)]}),
            ("without a later fault", True, {"message": message("GRAFT", "F", "E", 500, topic="a"), "fault_event": [
                one for of in (A, C, D) for one in fault("pause", 501, of)]}),
        )
    },
    # floods_own
    "a publisher does not flood": case(
        "flood", {"floods_own": "60 A A2: is not pushed to node 5, which has announced the topic"},
        message=removed(sent("PUB", A, F, 60)),
    ),
    "a publisher does not flood after a fault of the neighbour": case(
        "flood", {}, message=removed(sent("PUB", A, F, 60)), fault_event=fault("pause", 60, F, 61),
    ),
    "a publisher does not flood before a fault of the neighbour": case(
        "flood", {"floods_own": "60 A A2: is not pushed to node 5, which has announced the topic"},
        message=removed(sent("PUB", A, F, 60)), fault_event=fault("pause", 61, F, 62),
    ),
    # never_back
    "a push to the publisher": case(
        "flood", {"never_back": "62 C A2: pushed back to node 0"},
        message=message("PUB", "C", "A", 62, of="A2", topic="a", fate="duplicate"),
    ),
    "a push to the sender": case(
        "flood", {"never_back": "62 F A2: pushed back to node 2"},
        message=message("PUB", "F", "C", 62, of="A2", topic="a", fate="duplicate"),
    ),
    # no_mesh_outside
    "a mesh of a topic that the node has not joined": case(
        "members", {"no_mesh_outside": "- F -: topic a: 1 neighbours in the mesh, and it has not joined"},
        state_topic=state(F, mesh=mesh(A)),
    ),
    # known_peers
    "a peer is unknown": case(
        "flood", {"known_peers": "- E -: topic a: node 1 has joined it, and is no peer"},
        state_topic=state(E, peers=mesh(D, F, G)),
    ),
    "a peer has left": case(
        "members", {"known_peers": "- E -: topic a: node 6 has left it, and is a peer"},
        state_topic=state(E, peers=mesh(D, G)),
    ),
    "a peer has left, and its announcement is lost": case(
        "members", {}, state_topic=state(E, peers=mesh(D, G)),
        message=replaced(sent("ANNOUNCE", G, E, 250), fate="'lost_link'"),
    ),
    "a peer has left, and its announcement to another node is lost": case(
        "members", {"known_peers": "- E -: topic a: node 6 has left it, and is a peer"},
        state_topic=state(E, peers=mesh(D, G)), message=replaced(sent("ANNOUNCE", G, F, 250), fate="'lost_link'"),
    ),
    "a peer has left, and an earlier announcement arrives later": case(
        "members", {}, state_topic=state(E, peers=mesh(D, G)),
        message=replaced(sent("ANNOUNCE", G, E, 20), due_round="251"),
    ),
    "a peer has crashed": case(
        "members", {"known_peers": "- E -: topic a: node 1 crashed in round 300, and is a peer"},
        state_topic=state(E, peers=mesh(D, B)),
    ),
    "a peer has crashed, and the run ends with the report": case(
        "members", {}, state_topic=state(E, peers=mesh(D, B)),
        message=removed("kind = 'NODE_DOWN' and due_round > 306"),
    ),
    # symmetric_mesh
    "a mesh without its counterpart": case(
        "ring", {"symmetric_mesh": "- B -: topic a: has A in its mesh, and is not in that of A"},
        state_topic=state(A, mesh=mesh(C), backoff=backoff(LATER, B)),
    ),
    "a mesh without its counterpart, and a GRAFT in flight": case(
        "ring", {}, state_topic=state(A, mesh=mesh(C), backoff=backoff(LATER, B)),
        message=message("GRAFT", "B", "A", 30, topic="a", fate="in_flight"),
    ),
    "a mesh without its counterpart, and a GRAFT of another pair in flight": case(
        "ring", {"symmetric_mesh": "- B -: topic a: has A in its mesh, and is not in that of A"},
        state_topic=state(A, mesh=mesh(C), backoff=backoff(LATER, B)),
        message=message("GRAFT", "C", "A", 30, topic="a", fate="in_flight"),
    ),
    # bounded_mesh: the run ends in round 432, d_hi is 3 and d_out is 1
    "a mesh with 4 neighbours": case(
        "flood", {"bounded_mesh": "- A -: topic a: 4 neighbours in the mesh, d_hi is 3"},
        state_topic=state(A, mesh=mesh(B, C, D, F)),
    ),
    "a mesh with 4 neighbours after an outbound GRAFT in the last heartbeat": case(
        "flood", {}, state_topic=state(A, mesh=mesh(B, C, D, F)), message=message("GRAFT", "A", "C", 423, topic="a"),
    ),
    "a mesh with 4 neighbours after an outbound GRAFT before the last heartbeat": case(
        "flood", {"bounded_mesh": "- A -: topic a: 4 neighbours in the mesh, d_hi is 3"},
        state_topic=state(A, mesh=mesh(B, C, D, F)), message=message("GRAFT", "A", "C", 422, topic="a"),
    ),
    "a mesh with 4 neighbours after a GRAFT that is not outbound": case(
        "flood", {"bounded_mesh": "- A -: topic a: 4 neighbours in the mesh, d_hi is 3"},
        state_topic=state(A, mesh=mesh(B, C, D, F)), message=message("GRAFT", "A", "D", 423, topic="a"),
    ),
    "a mesh with 5 neighbours after an outbound GRAFT in the last heartbeat": case(
        "flood", {"bounded_mesh": "- A -: topic a: 5 neighbours in the mesh, d_hi is 3"},
        state_topic=state(A, mesh=mesh(B, C, D, F, G)), message=message("GRAFT", "A", "C", 423, topic="a"),
    ),
    "a mesh with 4 neighbours after the GRAFT of a neighbour": case(
        "flood", {}, state_topic=state(A, mesh=mesh(B, C, D, F)), message=message("GRAFT", "C", "A", 422, topic="a"),
    ),
    "a mesh with 4 neighbours, and the GRAFT of a neighbour before the last heartbeat": case(
        "flood", {"bounded_mesh": "- A -: topic a: 4 neighbours in the mesh, d_hi is 3"},
        state_topic=state(A, mesh=mesh(B, C, D, F)), message=message("GRAFT", "C", "A", 421, topic="a"),
    ),
    "a mesh with 4 neighbours after a pause": case(
        "flood", {}, state_topic=state(A, mesh=mesh(B, C, D, F)), fault_event=fault("pause", 423, A),
    ),
    "a mesh with 4 neighbours after a pause before the last heartbeat": case(
        "flood", {"bounded_mesh": "- A -: topic a: 4 neighbours in the mesh, d_hi is 3"},
        state_topic=state(A, mesh=mesh(B, C, D, F)), fault_event=fault("pause", 420, A, 422),
    ),
    # fills_mesh: d_lo is 2
    **{
        f"{name} mesh lacks neighbours{of}": case(
            "flood", {"fills_mesh": f"- F -: topic a: {detail} that it may graft"} if is_found else {},
            state_topic=state(F, mesh=mesh(*nodes)), **changes,
        )
        for name, nodes, detail in (
            ("a small", (C,), "1 neighbours in the mesh, 1 of them outbound, and 4"),
            ("an inbound", (D, G), "2 neighbours in the mesh, 0 of them outbound, and 3"),
        )
        for of, is_found, changes in (
            ("", True, {}),
            (" and has moved", False, {"message": message("ANNOUNCE", "F", "A", 412, **JOINED)}),
            (" and moved before", True, {"message": message("ANNOUNCE", "F", "A", 409, 411, **JOINED)}),
            (" after a pause", False, {"fault_event": fault("pause", 413, F)}),
            (" and paused before", True, {"fault_event": fault("pause", 410, F, 412)}),
            (" after a pause of a neighbour", False, {"fault_event": fault("pause", 394, A)}),
            (" and a neighbour paused before", True, {"fault_event": fault("pause", 392, A, 393)}),
            (" after a pause of another node", True, {"fault_event": fault("pause", 425, B)}),
            (" after a fault of links", False, {"fault_event": fault("loss", 425)}),
        )
    },
    **{
        f"a small mesh lacks neighbours with a backoff until round {until}": case(
            "flood", {"fills_mesh": "- F -: topic a: 1 neighbours in the mesh, 1 of them outbound, and 4 that it may "
                      "graft"} if is_found else {},
            state_topic=state(F, mesh=mesh(C), backoff=backoff(until, A, D, E, G)),
        )
        for until, is_found in ((402, False), (401, True))
    },
    **{
        f"{name} mesh has a neighbour whose announcement was lost": case(
            "flood", {"known_peers": "- F -: topic a: node 2 has joined it, and is no peer"} | found,
            state_topic=state(F, mesh=mesh(*nodes), peers=mesh(A, D, E, G)),
        )
        for name, nodes, found in (
            ("a full", (C, E), {}),
            (
                "a small", (C,),
                {"fills_mesh": "- F -: topic a: 1 neighbours in the mesh, 1 of them outbound, and 4 that it may graft"},
            ),
        )
    },
    # keeps_fanout: fanout_ttl is 2
    "no push to the fanout": case(
        "members", {"keeps_fanout": "82 F F2: is not pushed to node 0, which is in the fanout"},
        message=message("PUB", "F", "A", 70, 74, of="F1", topic="a", fate="duplicate"),
    ),
    "no push to the fanout 19 rounds later": case(
        "members", {"keeps_fanout": "82 F F2: is not pushed to node 0, which is in the fanout"},
        message=message("PUB", "F", "A", 70, 74, of="F1", topic="a", fate="duplicate"), publication=issued("F1", 63),
    ),
    "no push to the fanout 20 rounds later": case(
        "members", {}, message=message("PUB", "F", "A", 70, 74, of="F1", topic="a", fate="duplicate"),
        publication=issued("F1", 62),
    ),
    "no push to the fanout after a fault there": case(
        "members", {}, message=message("PUB", "F", "A", 70, 74, of="F1", topic="a", fate="duplicate"),
        fault_event=fault("pause", 82, A, 83),
    ),
    "no push to the fanout before a fault there": case(
        "members", {"keeps_fanout": "82 F F2: is not pushed to node 0, which is in the fanout"},
        message=message("PUB", "F", "A", 70, 74, of="F1", topic="a", fate="duplicate"),
        fault_event=fault("pause", 240, A, 241),
    ),
    "gossip after the end of the fanout": case(
        "members",
        {"keeps_fanout": "180 F -: gossips to its fanout after its end, publications were in rounds up to 150"},
        message=message("IHAVE", "F", "E", 180, topic="a", ids=[]),
    ),
    "gossip at the end of the fanout": case(
        "members", {}, message=message("IHAVE", "F", "E", 170, topic="a", ids=[]),
    ),
    # forgets_crashed: A knows in round 306 that B has crashed
    "a message to a node that is known to be down": case(
        "members", {"forgets_crashed": "307 A -: sends PRUNE to node 1, which crashed in round 300"},
        message=message("PRUNE", "A", "B", 307, topic="a", backoff_rounds=20),
    ),
    "a message in the round of the crash report": case(
        "members", {}, message=message("PRUNE", "A", "B", 306, topic="a", backoff_rounds=20),
    ),
    "a message to a node that is known to be down, after a pause": case(
        "members", {}, message=message("PRUNE", "A", "B", 307, topic="a", backoff_rounds=20),
        fault_event=fault("pause", 307, A, 308),
    ),
    "a message to a node that is known to be down, before a pause": case(
        "members", {"forgets_crashed": "307 A -: sends PRUNE to node 1, which crashed in round 300"},
        message=message("PRUNE", "A", "B", 307, topic="a", backoff_rounds=20), fault_event=fault("pause", 308, A, 309),
    ),
}  # fmt: skip


runs = store_of(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_audits_find_exactly_the_violations(runs: Store, name: str) -> Planting:
    of = CASES[name]
    [copy] = yield [of.plant(runs, RUNS)]
    assert lines(copy) == of.found
