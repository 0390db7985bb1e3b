"""Add commands to the command line `catena`, found by the entry points "catena.commands"."""
