"""The round engine, which plays the runs of a protocol round by round and commits their history."""
