"""The audits, which check guarantees from the history alone. An audit is a query that returns the violating rows."""
