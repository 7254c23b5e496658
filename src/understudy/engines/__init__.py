"""Other people's engines behind our own protocols, each an extra: Ray runs cells and shards (``ray_tasks``)."""
