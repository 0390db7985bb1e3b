"""Score question and text together, and turn those scores into probabilities."""
