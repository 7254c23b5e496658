"""Gold and pool, their rows and the order in which batches draw them."""
