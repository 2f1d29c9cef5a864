"""What it takes to start each engine; only `pipelines.session` uses this."""
