"""The workload of a run: calls that the scenario lists, that files contain, or that are drawn from the seed."""
