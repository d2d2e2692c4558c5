"""`corral serve`: sessions, tabs and events for a page, on loopback; a view that decides nothing about sessions."""
