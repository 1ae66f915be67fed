"""Plugins that fill in new pods: from other objects and with credentials (`defaults`), from their runtime class
(`runtimeclasses`), and from the node that they are bound to (`topologylabels`)."""
