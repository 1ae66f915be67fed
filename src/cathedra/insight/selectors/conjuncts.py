"""The conditions that an expression joins by ``&&``, in the order of the text."""

from __future__ import annotations

from cathedra.cel.syntax.tree import CallExpr, Expr

__all__ = ["conjuncts", "source_of"]


def conjuncts(root: Expr) -> list[Expr]:
    """The operands of the outermost ``&&``; the whole expression if it has none."""
    found: list[Expr] = []
    pending = [root]
    while pending:
        one = pending.pop()
        if isinstance(one, CallExpr) and one.function == "_&&_":
            pending.extend(reversed(one.args))
        else:
            found.append(one)
    return sorted(found, key=lambda one: one.start)


def source_of(expression: str, part: Expr) -> str:
    """The text of a part."""
    return expression[part.start : part.end].strip()
