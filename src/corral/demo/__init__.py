"""`corral demo`: a throw-away home in which a small agent of our own shows everything, for those who have none."""
