"""From a laid-out page to Markdown."""
