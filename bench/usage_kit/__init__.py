"""What bench/usage.py is made of: generated homes, the peers, timing, and the table."""
