"""The label store: what a teacher was paid to say, by id, in checksummed shards."""
