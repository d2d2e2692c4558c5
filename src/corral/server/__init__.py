"""`corral serve`: sessions, tabs and events for the page, on loopback. A view: it decides nothing about sessions."""
