"""Crashes of members, and clients that come to brokers outside the sub-tree of a topic (rules G30 and G33 to G36).

The cases are of the kind of `test_crashes`, each swept over the rounds of a crash.
"""

from __future__ import annotations

from support.ginger.nodes import holding, swept


def test_a_client_whose_edge_broker_has_failed_has_locked_nothing() -> None:
    """Rule G33: B4 has locked for C7, and fails; C7 then delivers its own messages at B0, which is not below B2."""
    case = swept({0: None, 1: 0, 2: 0, 3: 1, 4: 2}, {6: 2, 7: 4}, {(0, 1): 3, (0, 2): 2, (1, 3): 5, (2, 4): 3})
    holding(case({0: 208, 4: first, 1: at}, {0: 225}) for first in (222, 229) for at in range(230, 260))


def test_a_broker_outside_the_sub_tree_passes_no_message_of_a_client() -> None:
    """Rule G34: TotalProcessed to B4 is lost. C7 comes to B0, which has recovered, before B2 is a child of B0."""
    case = swept({0: None, 1: 0, 2: 0, 3: 1, 4: 2}, {6: 2, 7: 4}, {(0, 1): 3, (0, 2): 2, (1, 3): 5, (2, 4): 3})
    holding(case({0: 208, 4: first, 1: at}, {0: 225}) for first in (212, 213) for at in range(230, 256))


def test_two_brokers_outside_the_sub_tree_that_connect_first_are_not_current() -> None:
    """Rule G34: B0, which has recovered, and B5 have clients, and connect before one of them finds the sub-tree."""
    latency = {(0, 1): 3, (0, 2): 5, (0, 3): 3, (1, 4): 5, (1, 5): 3}
    case = swept({0: None, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1}, {6: 5, 7: 4}, latency)
    holding(case({0: 208, 4: 213, 1: at}, {0: 229}) for at in range(230, 243))


def test_a_search_for_a_sub_tree_is_repeated_over_a_connection_that_began_during_the_search() -> None:
    """Rule G36: B1 searches for C7 and C8 when B2, which is in the sub-tree, becomes its child."""
    latency = {(0, 1): 2, (0, 2): 1, (2, 3): 5, (1, 4): 5, (0, 5): 5}
    case = swept({0: None, 1: 0, 2: 0, 3: 2, 4: 1, 5: 0}, {6: 2, 7: 3, 8: 3}, latency)
    holding(case({0: 205, 3: first, 5: at}, {0: 217}) for first in (210, 212) for at in range(224, 240))


def test_a_search_for_a_sub_tree_reaches_the_neighbour_that_asked_first() -> None:
    """Rule G36: the root asks B0, which has recovered, and joins the sub-tree. Then B2 asks B0."""
    latency = {(0, 1): 1, (0, 2): 1, (0, 3): 3, (2, 4): 3, (4, 5): 2, (1, 6): 1, (2, 7): 1}
    case = swept({0: None, 1: 0, 2: 0, 3: 0, 4: 2, 5: 4, 6: 1, 7: 2}, {8: 7, 9: 4, 10: 0}, latency, max_hops=3)
    holding(case({0: 208, 4: 214, 2: at}, {0: 217, 2: at + 5}) for at in range(228, 245))
    latency = {(0, 1): 1, (0, 2): 1, (1, 3): 5, (3, 4): 5, (2, 5): 5, (0, 6): 2, (1, 7): 5}
    case = swept({0: None, 1: 0, 2: 0, 3: 1, 4: 3, 5: 2, 6: 0, 7: 1}, {8: 7, 9: 3, 10: 3}, latency, max_hops=3)
    holding(case({0: 208, 3: 209, 1: at}, {0: 227, 1: at + 9}) for at in range(228, 256))


def test_a_search_is_answered_while_the_answer_of_the_parent_lacks_messages() -> None:
    """Rule G30: B1 awaits messages of C7, whose new edge broker B0 asks B1 for the sub-tree."""
    latency = {(0, 1): 2, (0, 2): 2, (0, 3): 9, (3, 4): 5}
    case = swept({0: None, 1: 0, 2: 0, 3: 0, 4: 3, 5: 1}, {6: 5, 7: 4}, latency, total_degree=8)
    holding(case({0: 210, 4: 223, 2: at}, {0: 227}) for at in range(250, 270))


def test_the_failure_of_an_orphan_that_has_no_other_neighbour_is_reported() -> None:
    """Rule G35: B6, which was a member, has lost its child B7 and its parent B5, and fails before it has a parent."""
    latency = {(0, 1): 2, (0, 2): 2, (0, 3): 3, (3, 4): 2, (5, 6): 2, (6, 7): 5}
    case = swept({0: None, 1: 0, 2: 0, 3: 0, 4: 3, 5: 2, 6: 5, 7: 6}, {8: 2, 9: 7}, latency, max_hops=4)
    holding(case({0: 208, 7: 215, 5: 217, 6: at}, {0: 215, 5: 219}) for at in range(222, 250))


def test_the_failure_of_an_orphan_during_an_election_is_reported() -> None:
    """Rule G35: B2, which was a member, has lost its child B3, votes with B1 and B6, and fails before it asks one."""
    latency = {(0, 1): 5, (0, 2): 5, (2, 3): 2, (4, 5): 3, (0, 6): 2}
    case = swept({0: None, 1: 0, 2: 0, 3: 2, 4: 1, 5: 4, 6: 0}, {7: 4, 8: 3}, latency, max_hops=4)
    holding(case({0: 208, 3: 212, 2: at}, {0: 225}) for at in range(218, 245))


def test_the_failure_of_a_broker_together_with_its_only_neighbour_is_reported() -> None:
    """Rule G35: B4 has lost its child B5 and its parent B3, and fails shortly before B2, which it has asked."""
    latency = {(0, 1): 2, (0, 2): 3, (2, 3): 5, (3, 4): 2, (4, 5): 2}
    case = swept({0: None, 1: 0, 2: 0, 3: 2, 4: 3, 5: 4}, {6: 5, 7: 0}, latency, max_hops=5)
    holding(case({3: 208, 5: 212, 4: at, 2: at + 5}) for at in range(218, 245))
