"""From a file to a document, whatever the file does."""
