"""Certificates that are asked for through the API."""
