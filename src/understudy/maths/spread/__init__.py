"""k-means++ and farthest-first over factored embeddings."""
