"""What every view shows."""
