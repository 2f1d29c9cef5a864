"""Functions that executors run: standard library, numpy, pandas and pyarrow only."""
