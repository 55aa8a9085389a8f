"""A technique that users define: a weighted sum of models and of other techniques."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar, cast

import torch

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.paths import user_path
from levelfield.core.sample import Control
from levelfield.generation.control_text import (
    control_text,
    template_attributes,
    unspeakable,
)
from levelfield.generation.logits.processor import Support
from levelfield.generation.logits.readers import Prefix
from levelfield.generation.logits.terms import BaseLM, Extreme, Formula, HelperLM, Term
from levelfield.generation.table import make_technique, mechanism_of
from levelfield.generation.technique import LocalTechnique
from levelfield.io.toml import TomlTable, read_toml

_Sum = dict[str, float]
"""Name -> weight; a number is the weight of no name."""
OPERATORS = ("union", "intersection")
"""Functions of formulas in a formula: the largest of their log-probabilities, and the least."""


def weights(formula: str, numbers: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    """Returns the weight of every name in a formula, and of every union and intersection.

    >>> weights("base + s * (expert - anti / 2)", {"s": 3.0}, ["base", "expert", "anti"])
    {'base': 1.0, 'expert': 3.0, 'anti': -1.5}
    >>> weights("base + 2 * union(a, a + b)", {}, ["base", "a", "b"])
    {'base': 1.0, 'union(a, a + b)': 2.0}

    Args:
        formula: sums, differences, and products and quotients with numbers, of names and of
            `union(…)` and `intersection(…)` of formulas.
        numbers: names that stand for numbers.
        names: the others.

    Raises:
        UserError: it is not such a formula.
    """
    try:
        tree = ast.parse(formula.strip(), mode="eval")
        total = _sum(tree.body, numbers, names)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
        raise UserError(
            f"formula '{formula:.80}': {reason}; expected a sum such as base + 2 * (expert - anti)"
        ) from None
    if total.pop("", 0.0) or not all(map(math.isfinite, total.values())):
        raise UserError(f"formula '{formula:.80}': expected names with weights, not a bare number")
    return total


def operands(name: str) -> tuple[str, ...]:
    """Returns the formulas in a union or an intersection; none of the name of a term.

    >>> operands("union(a, a + b)")
    ('a', 'a + b')
    """
    call = ast.parse(name, mode="eval").body
    return tuple(map(ast.unparse, call.args)) if isinstance(call, ast.Call) else ()


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
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_], keywords=[]) if name in OPERATORS:
            for formula in operands(ast.unparse(node)):
                weights(formula, numbers, names)
            return {ast.unparse(node): 1.0}
        case ast.Call(func=ast.Name(id=name)) if name in OPERATORS:
            raise ValueError(f"{name} takes two formulas or more")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
            return _times(_sum(inner, numbers, names), -1.0 if isinstance(sign, ast.USub) else 1.0)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _sum(left, numbers, names), _sum(right, numbers, names)
            return _joined(operator, a, b)
    raise ValueError(
        f"it contains more than sums, products with numbers, names, {' and '.join(OPERATORS)}"
    )


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


_ZERO = Formula(())


@dataclass(frozen=True)
class ModelTerm(Options):
    """log p(x_t | text, x_<t) / τ of a model that reads a text before the prompt.

    Raises:
        UserError: braces in the text are not places for values.
    """

    text: str = option(
        "",
        "Text that the model reads first, with {ATTRIBUTE} in place of each value of the control.",
        example='"A {sentiment} review: "',
        blank=True,
    )
    model: str = option(
        "",
        "Causal model with the vocabulary of the base.",
        otherwise="the base",
        blank=True,
        metavar="NAME",
    )
    temperature: float = option(
        1.0, "Temperature τ: divides the log-probabilities of the model.", above=0
    )
    sees_prompt: bool = option(
        True, "Let the model read the whole prompt; false: only its last token."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            template_attributes(self.text)
        except ValueError as error:
            raise UserError(
                f"text: {error}; write {{sentiment}} for a value, {{{{ for a brace"
            ) from None

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it reads."""
        return template_attributes(self.text)


@dataclass(frozen=True)
class TechniqueTerm:
    """log p' − log p: what another technique changes in the base.

    Attributes:
        technique: one that acts at the logits; it works on the combination's base, whatever its
            own.
        attribute: what it controls here; empty for a technique that controls nothing.

    Raises:
        UserError: the technique changes no logits.
    """

    technique: LocalTechnique
    attribute: str = ""

    def __post_init__(self) -> None:
        is_local = isinstance(self.technique, LocalTechnique)
        if not is_local or mechanism_of(self.technique) != "logits":
            raise UserError(
                f"technique {self.technique.name} does not act at the logits, so it cannot be a "
                "term"
            )

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it reads."""
        return frozenset({self.attribute} - {""})


@dataclass(frozen=True, kw_only=True)
class Combination(LocalTechnique):
    """A weighted sum of log-probabilities, as in `base + 2 * (expert - anti)`.

    The names in the formula are `base`, the base's log-probabilities; `strength`, a number; and
    those of the terms: a model after a text (`ModelTerm`), or what another technique changes in
    the base (`TechniqueTerm`). The sum is the log-probability of the next token up to a constant,
    among the tokens that the base could choose. The repetition penalty counts once, whatever the
    weight of `base`.

    `union(f, g)` is max(log p_f, log p_g) of each token, and `intersection(f, g)` the minimum, with
    p_f the distribution whose log-probability is the formula f up to a constant. Dekoninck et al.
    (2024), "Controlled text generation via language model arithmetic", have such formulas, too.

    Controls the attributes that its terms read, all of which a request then names. A combination
    whose terms read none takes any control and ignores it, as the base does.

    Raises:
        UserError: it is not such a formula, a name has no term, or a term is wrong.
    """

    name: ClassVar[str] = "combination"
    formula: str = option(
        "base",
        "Formula: sums and differences of named terms, their products and quotients with numbers, "
        "and `union` and `intersection` of formulas.",
    )
    terms: Mapping[str, Any] | str = option(
        "",
        "Terms by name; or a TOML file with a table for each. The keys of a table are those of "
        "`ModelTerm`, or `technique`, `attribute` and options of the technique.",
        expected="names with terms, or a TOML file",
        metavar="FILE",
    )
    strength: float = option(1.0, "Number that `strength` stands for in the formula.")

    def __post_init__(self) -> None:
        super().__post_init__()
        named: Mapping[str, Any] = {}
        if isinstance(self.terms, str) and self.terms:
            named = read_toml(user_path(self.terms))
        elif not isinstance(self.terms, str):
            named = self.terms
        problems: list[str] = []
        terms = {name: _term(name, value, problems) for name, value in named.items()}
        if problems:
            raise UserError("\n".join(problems))
        object.__setattr__(self, "terms", terms)
        if wrong := [name for name in terms if name in ("base", "strength")]:
            raise UserError(f"terms: {wrong[0]} already has a meaning; rename the term")
        _ = self._weights

    @property
    def _terms(self) -> Mapping[str, ModelTerm | TechniqueTerm]:
        assert not isinstance(self.terms, str)
        return {
            name: replace(
                term,
                technique=replace(
                    term.technique, model=self.model, loading=self.loading, bos=self.bos
                ),
            )
            if isinstance(term, TechniqueTerm)
            else term
            for name, term in self.terms.items()
        }

    @property
    def _weights(self) -> Mapping[str, float]:
        """Name -> weight, of names that the formula has, unions and intersections among them."""
        return self._weights_of(self.formula)

    def _weights_of(self, formula: str) -> Mapping[str, float]:
        assert not isinstance(self.terms, str)
        return weights(formula, {"strength": self.strength}, ["base", *self.terms])

    @property
    def _used(self) -> Mapping[str, ModelTerm | TechniqueTerm]:
        """The terms that the formula has, and what is in its unions and intersections, too."""
        names: set[str] = set()
        formulas = [self.formula]
        while formulas:
            for name in self._weights_of(formulas.pop()):
                names.add(name)
                formulas += operands(name)
        return {name: term for name, term in self._terms.items() if name in names}

    @property
    def _attributes(self) -> frozenset[str]:
        """All attributes that the terms of the formula read."""
        return frozenset().union(*(term.attributes for term in self._used.values()))

    @property
    def choices(self) -> Mapping[str, str]:
        used = {name: self._named(term) for name, term in self._used.items()}
        return {"formula": self.formula, "strength": f"{self.strength:g}", **used}

    def _named(self, term: ModelTerm | TechniqueTerm) -> str:
        if isinstance(term, ModelTerm):
            model = self._label(term.model or self.model)
            sees = "" if term.sees_prompt else " last"
            return f"{model} {term.temperature:g}{sees} {term.text!r}"
        options = ",".join(f"{name}={value}" for name, value in term.technique.choices.items())
        return f"{term.technique.name}({options}) {term.attribute}".strip()

    def refusal(self, control: Control) -> str:
        attributes = self._attributes
        if attributes and attributes != control.keys():
            return (
                f"{self.name}: the terms read {', '.join(sorted(attributes))}, and the control has "
                f"{', '.join(sorted(control)) or 'nothing'}"
            )
        for name, term in self._used.items():
            mine = {a: control[a] for a in term.attributes}
            refuse = unspeakable if isinstance(term, ModelTerm) else term.technique.refusal
            if reason := refuse(mine):
                return f"{self.name}: {name}: {reason}"
        return ""

    def _formula(self, _: frozenset[str]) -> Formula | None:
        total = _ZERO
        for name, weight in self._weights.items():
            if name == "base":
                total = total + (BaseLM() + (weight - 1) * BaseLM(penalised=False))
            elif weight:
                total = total + weight * self._as_term(name)
        if "base" not in self._weights:
            total = total + (BaseLM() - BaseLM(penalised=False))
        return total

    def _as_term(self, name: str) -> Term:
        if name == "base":
            return BaseLM(penalised=False)
        if formulas := operands(name):
            return Extreme(tuple(map(self._inner, formulas)), is_largest=name.startswith("union("))
        return self._as_change(self._terms[name])

    def _inner(self, formula: str) -> Formula:
        """A formula in a union or an intersection."""
        parts = self._weights_of(formula).items()
        return sum((weight * self._as_term(name) for name, weight in parts if weight), _ZERO)

    def _as_change(self, term: ModelTerm | TechniqueTerm) -> Term:
        if isinstance(term, ModelTerm):
            reads = partial(self._prefix_of, term)
            model = self._helper(term.model or self.model)
            return HelperLM(model, reads, term.temperature, term.sees_prompt)
        formula = term.technique._formula(term.attributes)
        return _ZERO if formula is None else formula - BaseLM()

    def _prefix_of(self, term: ModelTerm, control: Control) -> Prefix:
        values = {a: control[a] for a in term.attributes}
        return tuple(self.base.ids(control_text(values, term.text)))

    @property
    def _support(self) -> Support | None:
        every = [t.technique._support for t in self._used.values() if isinstance(t, TechniqueTerm)]
        return reduce(_both, (support for support in every if support), None)


def _both(a: Support | None, b: Support) -> Support:
    def both(log_p: torch.Tensor) -> torch.Tensor:
        return a(log_p) & b(log_p) if a else b(log_p)

    return both


def _term(name: str, value: object, problems: list[str]) -> ModelTerm | TechniqueTerm | None:
    """Returns a term as a table of a file has it; None after notes of what is wrong."""
    if isinstance(value, ModelTerm | TechniqueTerm):
        return value
    if not name.isidentifier() or not isinstance(value, Mapping):
        problems.append(
            f"terms: {name}: expected a name without blanks, and ModelTerm, TechniqueTerm or a "
            "table with the keys of one"
        )
        return None
    many = len(problems)
    table = TomlTable(value, f"terms: {name}", problems)
    try:
        if "technique" in table:
            inner = table.text("technique", '"gedi"')
            options = {key: table.take(key) for key in table if key not in _OF_TERMS}
            attribute = table.text("attribute", '"sentiment"', default="")
            if len(problems) > many:
                return None
            return TechniqueTerm(cast(LocalTechnique, make_technique(inner, options)), attribute)
        values = table.values(ModelTerm)
        table.finish(elsewhere={"attribute": "belongs to a term with technique, which is missing"})
        return ModelTerm(**values) if len(problems) == many else None
    except UserError as error:
        table.wrong(str(error))
    return None


_OF_TERMS = ("technique", "attribute")
"""Keys of a table that are none of the technique's options."""
