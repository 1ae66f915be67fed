"""Certificates that are requested through the API."""
