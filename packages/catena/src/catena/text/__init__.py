"""Text as it is read and compared: words, and every foreign syntax, by one reader each."""
