"""What runs inside the life of an agent: the hook program, packed into one file."""
