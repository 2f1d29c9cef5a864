"""Functions that executors run. They import only the standard library, numpy, pandas and pyarrow."""
