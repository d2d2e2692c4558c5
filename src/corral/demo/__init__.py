"""`corral demo`: a throw-away home in which a small agent of corral's own shows everything."""
