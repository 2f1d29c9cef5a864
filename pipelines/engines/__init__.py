"""The engines: sessions, how they keep relations, and what differs between them."""
