"""Histories of concurrent clients, and proof that one order of their operations explains all answers."""
