"""Node programs: protocols as sequential Python for one node.

The author of a protocol writes records and messages (`records`), and a `NodeProgram` (`program`). The program has a
handler for each message kind and each kind of application call (`calls`). `world.step` executes one node in one round.
`network` executes whole runs; `local` executes them in tests, without an engine. `arrow` converts nodes and messages to
Arrow columns and back.

Terms:

- declaration: a class attribute of a program that declares a part of a node's state; it becomes a table of the store;
- durable, volatile: state that survives a crash of its node, and state that a crash deletes;
- incarnation: the period of a node from a start or recovery to the next crash; also the number of this period, from 0;
- watch: the observation of another node by the failure detector, which reports a crash to handler ``on_down``;
- fate: the outcome of a message (column ``fate`` of table ``message``): ``delivered``, or the reason of its loss;
- block: consecutive rounds of whole runs, which one job executes;
- dataflow form: a second implementation of a protocol, by joins that compute a round of all runs in an engine. It
  produces the same rows as the node program.
"""
