"""Node programs: protocols as sequential Python for one node.

The author of a protocol writes records and messages (`records`), and a `NodeProgram` (`program`) with a handler for
each message kind and each kind of application call (`calls`). `world.step` plays one node in one round. `network` plays
whole runs; `local` plays them in tests, without an engine. `arrow` converts nodes and messages to Arrow columns and
back.
"""
