"""Which publication satisfies which subscription."""
