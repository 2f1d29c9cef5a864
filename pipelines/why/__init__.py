"""Explains from the history tables whether and why one subscriber received one publication.

The explanation is called a story. A copy is a message that carries the publication from one node to another.

1. `reading` reads the history rows of publications, subscriptions and crashes into a `facts.RunFacts`. A `facts.Trail`
   contains the copies of one publication that were sent between the nodes on the path to the subscriber.
2. `cause` finds the last node on the path that received the publication, and the reason why no later node received it.
3. `telling` answers a question with a `story.Story`, which contains a verdict and a tree of steps.
4. `overview` groups the missing, repeated and late deliveries of a store by cause.
5. `moves` lists the publications that an application misses because it moves to another node.

The modules contain no code for single protocols. They read the columns of the history tables, and these fields of
message bodies:

- ``subscription_id`` is the subscription that a message propagates.
- ``guide`` is the list of recipients in a copy. A node without the recipients' subscriptions needs this list.
- ``publications`` lists the publications in a message.
- ``peer`` is the failed node that a node's failure detector reports. The report is a message of the node to itself.

A message of a publish call is a copy if it has the kind of the call's first message; `facts.make_trail` states the
exception. The queries `contract.protocol.Protocol.waits` return the publications that nodes hold back at the end of the
run.
"""

from pipelines.why.story import Story
from pipelines.why.telling import Question, stories, story

__all__ = ["Question", "Story", "stories", "story"]
