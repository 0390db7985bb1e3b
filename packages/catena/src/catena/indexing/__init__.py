"""The embedded library on disk."""
