"""The `catena` command."""
