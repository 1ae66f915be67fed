"""What new pods are given: `defaults` by their surroundings, `credentials` by their service account, by their runtime
class (`runtimeclasses`), and by the node that they are bound to (`topologylabels`)."""
