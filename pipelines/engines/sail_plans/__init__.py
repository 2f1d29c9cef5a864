"""Plans as Sail gets them: parsed expressions, and parts without rows left out."""
