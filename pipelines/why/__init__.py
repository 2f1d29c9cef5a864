"""Why a subscriber got a publication, or did not: the story of one publication, from the history tables alone.

1. `facts`: what the history of a run says that bears on it, read at once for many questions (`reading`).
2. `trail`: the copies of the publication between the nodes on the way, and what is special about each.
3. `cause`: where it ended, and what ended it.
4. `story`: all that as a tree of steps and a sentence; `render` puts it on a terminal, `ask` turns names into ids.

No protocol is known by name. What is read beside the columns of the history tables is in the bodies of messages:
``subscription_id`` names the subscription that a message spreads, ``guide`` marks a copy that brings its own recipients
to a node that does not know them yet, ``publications`` lists those that a message brings, and a message of a node to
itself with ``peer`` is a report of its failure detector. A publication's copies are of the kind of the first message
that serves it. What a node keeps back the protocol tells (`contract.protocol.Protocol.waits`).
"""

from pipelines.why.ask import Question, stories, story
from pipelines.why.story import Story

__all__ = ["Question", "Story", "stories", "story"]
