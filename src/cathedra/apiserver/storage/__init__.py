"""Where objects survive: a durable log behind the objects in memory. Nobody outside the API server knows of it."""
