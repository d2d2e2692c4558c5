"""What corral itself wrote down and several rooms read."""
