"""The workload of a run: listed in the scenario, read from files, or drawn from the seed."""
