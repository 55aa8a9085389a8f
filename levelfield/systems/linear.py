"""Formulas that a user writes: names with weights, as in `base + 2 * (expert - anti)`."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping

from levelfield.core.errors import UserError

_Sum = dict[str, float]
"""Name -> weight; a number is the weight of no name."""


def weights(formula: str, numbers: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    """The weight of every name in a formula.

    >>> weights("base + s * (expert - anti / 2)", {"s": 3.0}, ["base", "expert", "anti"])
    {'base': 1.0, 'expert': 3.0, 'anti': -1.5}

    Args:
        formula: sums, differences, and products and quotients with numbers.
        numbers: names that stand for numbers.
        names: the others.

    Raises:
        UserError: it is no such formula.
    """
    try:
        tree = ast.parse(formula.strip(), mode="eval")
        total = _sum(tree.body, numbers, names)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error) or "it is too deep"
        raise UserError(
            f"formula '{formula:.80}': {why}; expected a sum such as base + 2 * (expert - anti)"
        ) from None
    if total.pop("", 0.0) or not all(map(math.isfinite, total.values())):
        raise UserError(f"formula '{formula:.80}': expected names with weights, not a bare number")
    return total


def _sum(node: ast.AST, numbers: Mapping[str, float], names: Collection[str]) -> _Sum:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return {"": float(value)}
        case ast.Name(id=name) if name in numbers:
            return {"": numbers[name]}
        case ast.Name(id=name) if name in names:
            return {name: 1.0}
        case ast.Name(id=name):
            raise ValueError(f"there is no {name}; there are {', '.join([*names, *numbers])}")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
            return _times(_sum(inner, numbers, names), -1.0 if isinstance(sign, ast.USub) else 1.0)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _sum(left, numbers, names), _sum(right, numbers, names)
            return _joined(operator, a, b)
    raise ValueError("it has more than sums, products with numbers, and names")


def _joined(operator: ast.operator, a: _Sum, b: _Sum) -> _Sum:
    match operator:
        case ast.Add() | ast.Sub():
            sign = 1.0 if isinstance(operator, ast.Add) else -1.0
            return {name: a.get(name, 0.0) + sign * b.get(name, 0.0) for name in {**a, **b}}
        case ast.Mult() if b.keys() <= {""}:
            return _times(a, b.get("", 0.0))
        case ast.Mult() if a.keys() <= {""}:
            return _times(b, a.get("", 0.0))
        case ast.Mult():
            raise ValueError("two names are multiplied")
        case ast.Div() if b.keys() <= {""}:
            return _times(a, 1 / b.get("", 0.0))
    raise ValueError("only + and -, and * and / with numbers, join names")


def _times(total: _Sum, factor: float) -> _Sum:
    return {name: factor * weight for name, weight in total.items()}
