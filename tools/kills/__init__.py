"""Real processes killed at every boundary of their durable steps, and what is true after each restart."""
