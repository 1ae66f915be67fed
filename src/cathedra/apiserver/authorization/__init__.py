"""Who may do what: attributes of a request in, a decision out."""
