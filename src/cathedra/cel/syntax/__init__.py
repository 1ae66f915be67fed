"""Syntax trees from text.

`tokens` splits the text, `literals` computes the values of tokens, `parser` builds the `tree`, and `macros` expand in
it. If the text has an error, `recognizer` parses it again with the error recovery of Kubernetes' parser, and
`diagnosis` collects the errors.
"""
