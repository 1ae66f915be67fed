"""Device metadata files inside containers (KEP-5304): the reader, standard library only."""
