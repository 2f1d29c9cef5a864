"""Views of the stores of protocol ``skipring``."""
