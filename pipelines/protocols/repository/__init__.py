"""Reliable delivery through repositories (Pallickara, Bulut, Fox: NaradaBrokering)."""
