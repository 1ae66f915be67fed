"""The commands as users call them: as processes, piped or on a terminal."""
