"""The scheduling framework: results of plugins (`status`), extension points (`plugin`), cluster events that concern a
plugin (`events`), the refusals of all nodes in one sentence (`diagnosis`), and the time of one attempt (`attempt`)."""
