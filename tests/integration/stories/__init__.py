"""The failure stories of docs/failure-stories.md that no other suite proves."""
