"""The audits: guarantees checked from the history alone, each a query that returns the violating rows."""
