"""From a document to its sections and chunks."""
