"""Node programs: protocols whose nodes handle one message after the other.

An author writes records and messages (`records`) and a `NodeProgram` (`program`, with ready parts for subscriptions)
with handlers for messages and calls (`calls`). `world.step` plays one node in one round, `network` whole runs, `local`
runs in tests without an engine; `arrow` converts nodes and messages to rows and back.
"""
