"""What providers share: reading logs, telling programs apart, finding homes, reporting."""
