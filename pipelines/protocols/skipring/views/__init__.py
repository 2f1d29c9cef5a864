"""Views that know protocol ``skipring``."""
