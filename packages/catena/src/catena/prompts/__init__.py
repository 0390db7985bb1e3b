"""Prompts, one versioned file each."""
