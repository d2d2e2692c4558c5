"""The nouns of corral: frozen values without I/O, clock or opinion. Every other layer speaks in these."""
