"""The façade that every view uses: survey, answer, restore. Views render what it returns and decide nothing."""
