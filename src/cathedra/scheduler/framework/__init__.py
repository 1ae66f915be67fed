"""The framework's words: what a plugin may say (`status`), when it is asked (`plugin`), which changes in the cluster
concern it (`events`), and how the refusals of all nodes are told in one sentence (`diagnosis`)."""
