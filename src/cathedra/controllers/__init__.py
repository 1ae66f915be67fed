"""The control loops around claims, pods, jobs and their owners."""
