"""From text to syntax tree: tokens, tree, macros, parser; `diagnosis` words the mistakes; `printer` goes back to
text."""
