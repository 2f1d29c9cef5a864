"""Explains from the history tables whether and why one subscriber received one publication.

1. `reading` reads the history rows of publications, subscriptions and crashes into `facts`. A `facts.Trail` contains
   the copies of one publication that were sent between the nodes on its path.
2. `cause` finds the last node on the path that received the publication, and the reason why no later node received it.
3. `telling` composes a `story.Story`, which contains a verdict and a tree of steps. `ask` replaces the names in a
   question by ids.
4. `overview` groups the missing, repeated and late deliveries of a store by cause.
5. `moves` lists the publications that an application misses because it moves to another node.

The modules depend on no protocol. They read the columns of the history tables, and these fields of message bodies:

- ``subscription_id`` is the subscription that a message propagates.
- ``guide`` is the recipient list of a copy to a node that lacks the subscriptions.
- ``publications`` lists the publications in a message.
- ``peer`` is the failed node that a node's failure detector reports. The report is a message of the node to itself.

The copies of a publication are messages of one kind: the kind of the first message that the publish call causes. The
queries `contract.protocol.Protocol.waits` return the publications that nodes hold back at the end of the run.
"""

from pipelines.why.ask import Question, stories, story
from pipelines.why.story import Story

__all__ = ["Question", "Story", "stories", "story"]
