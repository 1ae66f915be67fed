"""What an attacker tries, and what he gets: one test per finding."""
