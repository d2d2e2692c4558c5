"""What bench/terminals.py is made of: the peers, one WebSocket client for all, what is measured, and the table."""
