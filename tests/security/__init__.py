"""What an attack must not achieve: one test per hole that was found, and the walk over every route and identity."""
