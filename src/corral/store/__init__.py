"""What corral keeps: a cache that can be deleted at any time, and (elsewhere) what must not be lost."""
