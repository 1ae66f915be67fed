"""Who asks: client certificates, bearer tokens, and the anonymous rest."""
