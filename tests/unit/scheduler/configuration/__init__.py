"""The file that configures the scheduler."""
