"""The controller between pods and classic claims: it makes them, keeps their reservations true, and ends them."""
