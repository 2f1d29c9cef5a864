"""The inputs of a run: overlay, workload and faults, computed from a scenario and a seed.

These parameters have the same meaning in all modules of the package:

- `overlay` and `seed`: the overlay and the seed of the run;
- `beside`: the folder of the scenario file. Relative paths are first looked up in this folder;
- `place`: the path of a key in the scenario, for error messages;
- `time`: the last possible round of the run, and the conversion of times in files to rounds;
- `purpose`: the name of a random draw. Draws with different names are independent (see `draws_numpy`).

A function that reads a file raises `DataFileError` if the file cannot be read or its content is invalid; the message
names the line or row. A function that builds a part of the inputs raises `InputError` if its part of the scenario is
invalid; the error lists all problems, each with its path in the scenario. Docstrings name other errors only.
"""
