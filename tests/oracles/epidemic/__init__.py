"""Protocol ``epidemic`` as a plain program: one node, one message after the other, without an engine."""
