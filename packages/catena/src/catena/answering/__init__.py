"""From passages to a written answer whose citations are checked."""
