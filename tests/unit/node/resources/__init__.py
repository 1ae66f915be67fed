"""How much of the node pods get."""
