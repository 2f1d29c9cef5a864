"""The inputs of a run: overlay, workload and faults, computed from a scenario and a seed.

Parameters with one meaning in all modules: `overlay` is the run's overlay, `seed` is the run's seed, and `horizon` is
the last possible round of the run. `beside` is the folder of the scenario file; relative paths are first looked up in
this folder. `place` is the path of a key in the scenario, for error messages. `clock` converts times in files to
rounds. `purpose` names a draw: draws of different purposes are independent (see `draws_numpy`).
"""
