"""Explains from the history tables whether and why one subscriber received one publication.

1. `reading` reads the history rows of publications, subscriptions and crashes into `facts`. A `facts.Trail` has the
   copies of one publication between the nodes on its path.
2. `cause` finds the last node on the path that received the publication, and the reason why no later node did.
3. `telling` composes a `story.Story`, which is a tree of steps with a verdict. `ask` finds the ids of the names in a
   question.
4. `overview` groups the missing, repeated and late deliveries of a store by cause.
5. `moves` lists the publications that an application misses because it moves to another node.

The modules depend on no protocol. Besides the columns of the history tables they read these fields of message bodies:

- ``subscription_id`` is the subscription that a message propagates.
- ``guide`` marks a copy with a recipient list, for a node that lacks the subscriptions.
- ``publications`` lists the publications in a message.
- ``peer``, in a message of a node to itself, is the failed node that the sender's failure detector reports.

The copies of a publication are messages of one kind: the kind of the first message that the publish call causes. Query
`contract.protocol.Protocol.waits` returns the publications that nodes have not sent yet although they were due.
"""

from pipelines.why.ask import Question, stories, story
from pipelines.why.story import Story

__all__ = ["Question", "Story", "stories", "story"]
