"""The parts composed in one process."""
