"""Why a subscriber got a publication, or did not: the story of one publication, from the history tables alone.

1. `facts`: the rows of a run's history that concern it, read once for many questions (`reading`), and its trail: the
   copies of the publication between the nodes on its way.
2. `cause`: where it ended, and what ended it.
3. `story`: a tree of steps and a sentence, and their printed form; `telling` composes it, `ask` turns names into ids.
4. `overview`: the deliveries of a store that went wrong, by cause.
5. `moves`: the publications that an application loses because it moves.

No protocol is known by name. What is read beside the columns of the history tables is in the bodies of messages:
``subscription_id`` names the subscription that a message spreads, ``guide`` marks a copy that brings its own recipients
to a node that does not know them yet, ``publications`` lists those that a message brings, and a message of a node to
itself with ``peer`` is a report of its failure detector. A publication's copies are of the kind of the first message
that serves it. What a node keeps back the protocol tells (`contract.protocol.Protocol.waits`).
"""

from pipelines.why.ask import Question, stories, story
from pipelines.why.story import Story

__all__ = ["Question", "Story", "stories", "story"]
