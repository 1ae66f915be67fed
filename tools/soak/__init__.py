"""A cluster under steady churn for an hour, and proof that nothing in it grows."""
