"""Plain checkers of protocols."""
