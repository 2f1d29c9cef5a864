"""Protocol ``epidemic`` as a plain sequential program, which plays one message at a time, without an engine."""
