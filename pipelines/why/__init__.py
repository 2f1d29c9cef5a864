"""Explains from the history tables whether and why one subscriber received one publication.

1. `reading` reads the history rows of publications, subscriptions and crashes into `facts`. A `facts.Trail` has the
   copies of one publication between the nodes on its path.
2. `cause` finds the node at which the publication ended, and the cause.
3. `story` has the result, a tree of steps with a verdict. `telling` composes it; `ask` translates names into ids.
4. `overview` groups the missing, repeated and late deliveries of a store by cause.
5. `moves` lists the publications that an application misses because it moves to another node.

The modules depend on no protocol. Besides the columns of the history tables they read these fields of message bodies:
``subscription_id`` is the subscription that a message propagates; ``guide`` marks a copy with a recipient list for a
node that lacks the subscriptions; ``publications`` lists the publications in a message; ``peer``, in a message of a
node to itself, is the node that its failure detector reports. The copies of a publication have the kind of the first
message that serves its call. `contract.protocol.Protocol.waits` is a query for the publications that nodes hold back.
"""

from pipelines.why.ask import Question, stories, story
from pipelines.why.story import Story

__all__ = ["Question", "Story", "stories", "story"]
