"""Node programs: protocols whose nodes handle one message after the other.

`program` is what an author writes: records (`records`), messages, a `NodeProgram` with its handlers for messages and
calls (`calls`); `subscriptions` has ready parts. `step` plays one node in one round, `network` whole runs, `local` lets
a test play them without an engine; `arrow` turns nodes and messages into rows and back.
"""
