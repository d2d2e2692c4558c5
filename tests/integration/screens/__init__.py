"""What viewers of a terminal see, judged by real terminal engines."""
