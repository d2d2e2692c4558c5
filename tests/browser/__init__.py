"""Browser tests: the page in a real Chromium, against the real server, with the reference agent in real terminals."""
