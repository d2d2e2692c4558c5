"""CLIs that do not exist, one for each thing that a provider may have to say, taken through the real survey."""
