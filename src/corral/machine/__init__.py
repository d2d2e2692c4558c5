"""What this machine says: processes, boot, files read safely. Facts only; judging them is for `sessions.decide`."""
