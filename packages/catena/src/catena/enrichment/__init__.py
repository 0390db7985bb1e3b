"""What is added to chunks so that they are found: critical terms, embeddings, keywords."""
