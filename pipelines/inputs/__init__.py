"""The inputs of a run: overlay, workload and faults, computed from a scenario and a seed."""
