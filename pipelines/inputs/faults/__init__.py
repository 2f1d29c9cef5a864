"""The faults of a run: listed in the scenario, read from traces, or drawn from the seed."""
