"""Routes, normalisation and fusion: from a question to one ranking."""
