"""What a request costs: pure functions of a price table."""
