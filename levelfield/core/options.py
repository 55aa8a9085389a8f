"""Options: a choice is said once, as a field of a dataclass, where it is used.

    @dataclass(frozen=True, kw_only=True)
    class Shape(Options):
        layers: int = option(2, "Layers of the encoder and of the decoder each.", least=1, most=24)

The field's name, type and default are Python's; `option` adds the range and the help. The same
declaration makes the option of a command (`levelfield.cli.options`), the key of a TOML table
(`levelfield.io.toml`), the lines of `levelfield metrics NAME`, the tables of the documentation and
the JSON schemas. Every door accepts the same values and says the same of the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import os
import re
import types
import typing
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar, cast

from levelfield.core.errors import UserError
from levelfield.core.strings import did_you_mean, finite_number, whole_number

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

_RULE = "levelfield.option"


class _Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Any = _Required()
"""The default of a choice that has none."""


class Unfit(ValueError):  # noqa: N818 (a finding; whoever knows the door makes an error of it)
    """A value is not one that a choice accepts.

    Attributes:
        expected: what the choice accepts, in words.
        hint: the name that a mistyped one resembles, as a question; may be empty.
    """

    def __init__(self, expected: str, hint: str = "") -> None:
        super().__init__(f"expected {expected}{f'; {hint}' if hint else ''}")
        self.expected = expected
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a declaration says of a choice beside name, type and default.

    Attributes:
        help: what the choice does, with formula and unit; begins with a verb or a noun.
        least, most: the smallest and the largest number accepted.
        above, below: numbers that lie just outside.
        among: the names accepted, or a function that returns them; read at first use.
        removed: names that were accepted once -> what a message says of them.
        fits: says whether a value of the right type is accepted; raises ValueError where only
            trying tells.
        expected: what a value has to be, in words, where type and range do not say it.
        example: a value, as messages and schemas show it.
        otherwise: what happens without a value, in place of a default: `the number of processors`.
        metavar: what stands for the value in `--help`.
        flags: the words of the command line, where they are not `--` and the name.
        flag_help: what the flag of a choice that is true by default does, since it turns the choice
            off, where `help` says what the choice does.
        bare: the value of the flag alone, where the value may be left out.
        is_file: whether the value is a file that is read.
        read: returns the value of a mapping from its words on the command line, where they are not
            `NAME=VALUE` with a text as value.
        key: the name in TOML files and JSON schemas, where it is not that of the field.
        fewest: the smallest number of items of a list or of a mapping.
        blank: whether a file may say an empty string.
        schema: returns further keywords of the JSON schema of a value.
    """

    help: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    among: Collection[str] | Callable[[], Collection[str]] | None = None
    removed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fits: Callable[[Any], object] | None = None
    expected: str = ""
    example: str = ""
    otherwise: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    flag_help: str = ""
    bare: str | None = None
    is_file: bool = False
    read: Callable[[Sequence[str]], Any] | None = None
    key: str = ""
    fewest: int = 0
    blank: bool = False
    schema: Callable[[], Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """What the owner of a group of options changes in it."""

    without: Collection[str] = ()
    among: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)


def option(
    default: Any = REQUIRED, help: str = "", *, positional: bool = False, **rule: Any
) -> Any:
    """Declares a choice: the value of a field of an `Options` dataclass.

    Args:
        default: of the field; left out where a value is required.
        help: what the choice does; begins with a verb or a noun.
        positional: whether Python may give a required value without its name.
        rule: further attributes of `Rule`.
    """
    metadata = {_RULE: Rule(help=help, **rule)}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata, kw_only=not positional)
    if isinstance(default, dict | list | set):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def group(
    default: Any = REQUIRED,
    *,
    without: Collection[str] = (),
    among: Mapping[str, Collection[str]] | None = None,
) -> Any:
    """Declares a field that holds other options; their choices count as the owner's.

    Args:
        default: the options; their values are the defaults of the choices.
        without: choices that the owner does not have; they keep their defaults.
        among: name of a choice -> the names that the owner accepts.
    """
    metadata = {_RULE: _Group(without, among or {})}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata, kw_only=True)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Declaration:
    """A declared choice.

    Attributes:
        name: of the field, the Python argument and the TOML key.
        annotation: the type, evaluated.
        default: `REQUIRED` where there is none.
        rule: range, help and spelling.
        path: the fields that lead to it from the options asked for; its name comes last.
    """

    name: str
    annotation: Any
    default: Any
    rule: Rule
    path: tuple[str, ...]

    @property
    def required(self) -> bool:
        """Whether a value has to be given."""
        return self.default is REQUIRED

    @functools.cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The members of a union, None aside; else the type itself."""
        return tuple(kind for kind in _members(self.annotation) if kind is not type(None))

    @property
    def optional(self) -> bool:
        """Whether None is a value."""
        return type(None) in _members(self.annotation)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are accepted, as far as the choice is one of names."""
        among = self.rule.among
        if among is not None:
            return tuple(among() if callable(among) else among)
        literals = (kind for kind in self.item_kinds if typing.get_origin(kind) is Literal)
        return tuple(str(value) for kind in literals for value in typing.get_args(kind))

    @property
    def is_list(self) -> bool:
        """Whether the choice is any number of values."""
        return any(_is_list(kind) for kind in self.kinds)

    @property
    def is_mapping(self) -> bool:
        """Whether the choice is names with values."""
        return any(typing.get_origin(kind) in _MAPPINGS for kind in self.kinds)

    @property
    def is_flag(self) -> bool:
        """Whether the choice is true or false."""
        return self.kinds == (bool,)

    @property
    def flags(self) -> tuple[str, ...]:
        """The words of the command line; of what is true by default, the word that turns it off."""
        word = self.name.replace("_", "-")
        is_off = self.is_flag and self.default is True
        return self.rule.flags or (f"--no-{word}" if is_off else f"--{word}",)

    @property
    def flag_help(self) -> str:
        """What the choice does on the command line."""
        return self.rule.flag_help or self.rule.help

    @property
    def shown_default(self) -> str:
        """The default, or what happens without a value, in words; may be empty."""
        if self.rule.otherwise:
            return self.rule.otherwise
        if self.default in (REQUIRED, None, "", (), {}) or isinstance(self.default, Options):
            return ""
        return ", ".join(map(str, self.default)) if self.is_list else str(self.default)

    @property
    def key(self) -> str:
        """The name in TOML files and JSON schemas."""
        return self.rule.key or self.name

    @property
    def table(self) -> type[Options] | None:
        """The class of its tables, where the choice is a table with choices of its own, or a list
        of such tables, or names with such tables."""
        kinds = [*self.item_kinds, *([self.value_choice.annotation] if self.value_choice else [])]
        tables = (k for k in kinds if isinstance(k, type) and issubclass(k, Options))
        return next(tables, None)

    @property
    def value_choice(self) -> Declaration | None:
        """The choice that each value of a mapping is; None unless the choice is a mapping."""
        rule = dataclasses.replace(self.rule, help="", key="", fewest=0, schema=None)
        for kind in self.kinds:
            if typing.get_origin(kind) in _MAPPINGS:
                annotation = typing.get_args(kind)[1]
                if typing.get_origin(annotation) not in _MAPPINGS:  # whose values the example shows
                    rule = dataclasses.replace(rule, example="")
                return Declaration(self.name, annotation, REQUIRED, rule, self.path)
        return None

    @property
    def is_only_list(self) -> bool:
        """Whether a single value does not stand for a list of one."""
        return all(_is_list(kind) for kind in self.kinds)

    @property
    def expected(self) -> str:
        """What is accepted, in words."""
        if self.rule.expected:
            return self.rule.expected
        phrase = self._item_expected
        if not self.is_list:
            return phrase
        several = _PLURAL.fullmatch(phrase)
        phrase = f"a list of {several[1]}s{several[2]}" if several else f"a list, each {phrase}"
        return f"{phrase}, such as {self.rule.example}" if self.rule.example else phrase

    @property
    def _item_expected(self) -> str:
        """What is accepted, or in a list accepted as an item."""
        if self.rule.expected and not self.is_list:
            return self.rule.expected
        words = list(dict.fromkeys(word for k in self.item_kinds for word in self._words(k)))
        phrase = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)
        if self.bounds:  # "a whole number from 1 on, or auto": what follows does not bound it
            phrase = ", or ".join(words)
        has_example = self.rule.example and not self.is_list
        return f"{phrase}, such as {self.rule.example}" if has_example else phrase

    @property
    def bounds(self) -> str:
        """The range of a number, in words; empty for all numbers."""
        rule = self.rule
        low = f"from {rule.least:,}" if rule.least is not None else ""
        low = f"above {rule.above:,}" if rule.above is not None else low
        if rule.most is not None:
            return (
                f"{low} to {rule.most:,}"
                if rule.least is not None
                else _joined(low, "at most", rule.most)
            )
        if rule.below is not None:
            return _joined(low, "below", rule.below)
        return f"{low} on" if rule.least is not None else low

    def narrowed(self, names: Collection[str]) -> Declaration:
        """Returns the choice with no names but these."""
        return dataclasses.replace(self, rule=dataclasses.replace(self.rule, among=names))

    def check(self, value: Any) -> Any:
        """Returns a value of Python or TOML as the field holds it.

        Lists and other collections become tuples, paths become strings, and numbers of other
        libraries become Python's.

        Raises:
            Unfit: the choice does not accept it.
        """
        if value is None and self.optional:
            return None
        if Any in self.kinds and not isinstance(value, list | tuple | Iterator):
            return value  # a data frame, say, which is more than the names of its columns
        if self.is_list:
            if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
                items = tuple(self.check_item(item) for item in value)
                if len(items) >= self.rule.fewest:
                    return items
                raise Unfit(self.expected)
            if self.is_only_list:
                raise Unfit(self.expected)
        return self.check_item(value)

    def parse(self, word: str) -> Any:
        """Returns the value that a user's word stands for; of a list, the word is one item.

        Raises:
            Unfit: the choice does not accept it.
        """
        for kind in self.item_kinds:
            value = _read(kind, word)
            if value is not REQUIRED:
                return self.check_item(value)
        raise Unfit(self._item_expected, self._hint(word))

    def schema(self) -> dict[str, Any]:
        """Returns the JSON schema of a value."""
        schema = _schema(self.annotation)
        rule = self.rule
        bounds = {
            "minimum": rule.least,
            "maximum": rule.most,
            "exclusiveMinimum": rule.above,
            "exclusiveMaximum": rule.below,
        }
        if self.value_choice:
            schema["additionalProperties"] = self.value_choice.schema()
        else:
            inner = schema.get("items", schema) if self.is_list else schema
            inner |= {key: bound for key, bound in bounds.items() if bound is not None}
            if rule.among is not None:
                inner["enum"] = list(self.names)
            elif str in self.item_kinds and not rule.blank:
                inner["pattern"] = r"\S"
        if rule.fewest:
            schema["minItems" if self.is_list else "minProperties"] = rule.fewest
        if rule.help:
            otherwise = f" Default: {rule.otherwise}." if rule.otherwise else ""
            schema["description"] = rule.help + otherwise
        if (
            not rule.otherwise
            and isinstance(self.default, str | int | float)
            and self.default != ""
        ):
            schema["default"] = self.default
        return schema | dict(rule.schema() if rule.schema else {})

    @functools.cached_property
    def item_kinds(self) -> tuple[Any, ...]:
        """The types that a value may have; of a list, those of an item."""
        kinds: list[Any] = []
        for kind in self.kinds:
            kinds += _members(typing.get_args(kind)[0]) if _is_list(kind) else [kind]
        return tuple(kinds)

    def check_item(self, value: Any) -> Any:
        """Returns a value, or one item of a list, if the choice accepts it.

        Raises:
            Unfit: it does not.
        """
        if isinstance(value, os.PathLike) and str in self.item_kinds:
            value = os.fspath(value)
        if isinstance(value, numbers.Integral) and not isinstance(value, int):
            value = int(value)
        elif isinstance(value, numbers.Real) and not isinstance(value, int | float):
            value = float(value)
        if not any(_is(kind, value) for kind in self.item_kinds) or not self._in_range(value):
            raise Unfit(self._item_expected, self._hint(value))
        return value

    def _in_range(self, value: Any) -> bool:
        rule = self.rule
        if rule.among is not None and isinstance(value, str) and value not in self.names:
            return False
        if isinstance(value, int | float) and not isinstance(value, bool):
            inside = (
                (rule.least is None or value >= rule.least)
                and (rule.most is None or value <= rule.most)
                and (rule.above is None or value > rule.above)
                and (rule.below is None or value < rule.below)
            )
            if not inside:
                return False
        try:
            return rule.fits is None or bool(rule.fits(value))
        except ValueError:
            return False

    def _words(self, kind: Any) -> Iterator[str]:
        if self.rule.among is not None and kind is str:
            yield from self.names
        elif typing.get_origin(kind) is Literal:
            yield from (str(v) for v in typing.get_args(kind) if str(v) in self.names)
        elif kind is bool:
            yield from ("true", "false")
        elif kind in (int, float):
            noun = "a whole number" if kind is int else "a number"
            yield f"{noun} {self.bounds}".strip()
        elif kind is str:
            yield "a string"
        elif typing.get_origin(kind) is os.PathLike:
            yield "a path"
        elif typing.get_origin(kind) in _MAPPINGS or self.table is kind:
            yield "a table"
        else:
            yield getattr(kind, "__name__", str(kind))

    def _hint(self, value: object) -> str:
        if str(value) in self.rule.removed:
            return self.rule.removed[str(value)]
        return did_you_mean(str(value), self.names, otherwise="")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of dataclasses whose fields are declared with `option` and `group`.

    A subclass that has checks of its own, between fields, calls `super().__post_init__()` first.

    Raises:
        UserError: a value that its choice does not accept.
    """

    def __post_init__(self) -> None:
        for choice in _own(type(self)):
            value = getattr(self, choice.name)
            fit = _checked(type(self), choice, value)
            if fit is not value:
                object.__setattr__(self, choice.name, fit)
        for name, changes in _groups(type(self)).items():
            _check_group(name, getattr(self, name), changes)

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns further keywords of the JSON schema, such as what goes with what."""
        return {}

    @classmethod
    def of(cls, base: Self | None = None, /, **values: Any) -> Self:
        """Returns options with these values, choices of groups included.

        Args:
            base: where the other values come from; by default the defaults.

        Raises:
            UserError: the class lacks such a choice, or it does not accept the value.
        """
        if base is not None and not values:
            return base
        declared = choices(cls)
        distributed(values, cls)
        missing = required(declared, values) if base is None else []
        for name, value in values.items():
            # the class checks the others; a group may accept more
            if name in declared and (missing or len(declared[name].path) > 1):
                values[name] = _checked(cls, declared[name], value)
        if missing:
            raise UserError(
                f"{missing[0]}: expected {declared[missing[0]].expected}; there is none"
            )
        return cast(Self, _with(cls, base, values))

    def replace(self, **values: Any) -> Self:
        """Returns a copy with other values, choices of groups included."""
        return type(self).of(self, **values)

    def refuse(self, names: Collection[str], subject: str) -> None:
        """Makes sure that choices which would be ignored have their defaults.

        Args:
            names: of those choices.
            subject: what does not accept them, in the plural.

        Raises:
            UserError: one of them has a value of its own.
        """
        declared = choices(type(self))
        for name, value in self.to_dict().items():
            if name in names and not _is_default(value, declared[name].default):
                raise UserError(f"{name}: {subject} do not accept this option")

    def accept_only(self, names: Collection[str], subject: str) -> None:
        """As `refuse`, of all choices but these."""
        self.refuse(choices(type(self)).keys() - {*names}, subject)

    def to_dict(self) -> dict[str, Any]:
        """Returns name -> value of all choices, those of groups included."""
        return {
            name: functools.reduce(getattr, choice.path, self)
            for name, choice in choices(type(self)).items()
        }


def _is_default(value: object, default: object) -> bool:
    # a data frame compares its cells, and is never a default
    is_plain = value is None or isinstance(value, str | int | float | tuple | Mapping | Options)
    return is_plain and value == default


def choices(factory: Callable[..., object]) -> dict[str, Declaration]:
    """Returns the choices of a class or factory by name, those of groups in their place.

    What is not declared with `option` is taken from the signature, its help from the `Args` of the
    docstrings; so classes of other packages have choices, too.

    Raises:
        TypeError, ValueError: it has no signature.
    """
    return dict(_choices(factory))


def make(factory: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Calls a class or factory with values by the names of its choices, groups filled in."""
    return _with(factory, None, values)


def distributed(words: Mapping[str, Any], *classes: type[Options]) -> list[dict[str, Any]]:
    """Returns the values of each class among keyword arguments that are of several.

    Raises:
        UserError: none of the classes has such a choice.
    """
    all_names = {name for cls in classes for name in (*choices(cls), *_groups(cls))}
    for name in words:
        if name not in all_names:
            hint = did_you_mean(name, sorted(all_names), form="'{}'".format)
            raise UserError(f"there is no option '{name}'; {hint}")
    names = [{*choices(cls), *_groups(cls)} for cls in classes]
    return [{name: words[name] for name in words if name in those} for those in names]


def keywords(*classes: type[Options]) -> Callable[[C], C]:
    """Shows the options of classes in the signature and the help of a function.

    The function takes them as `**words`; `help` and editors then name each with type and default.
    `__choices__` has the declarations, for the reference on the site.
    """
    declared = {name: choice for cls in classes for name, choice in choices(cls).items()}

    def show(function: C) -> C:
        signature = inspect.signature(function)
        shown = {
            name: choice for name, choice in declared.items() if name not in signature.parameters
        }
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if choice.required else choice.default,
                annotation=choice.annotation,
            )
            for name, choice in shown.items()
        ]
        lines = [f"    {name}: {choice.rule.help}" for name, choice in shown.items()]
        documented = cast(Any, function)
        documented.__signature__ = signature.replace(parameters=parameters)
        documented.__choices__ = shown
        documented.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Options:", *lines])
        return function

    return show


def required(declared: Mapping[str, Declaration], names: Container[str]) -> list[str]:
    """Returns the choices that have no default and are not among the names."""
    return [name for name, choice in declared.items() if choice.required and name not in names]


def underscored(words: Mapping[str, T]) -> dict[str, T]:
    """Returns words by the names of choices, in which a dash stands for an underscore.

    What precedes the last colon is the name of what has the choice, and stays as it is.

    >>> underscored({"rouge-1:min-length": "2"})
    {'rouge-1:min_length': '2'}

    Raises:
        UserError: two words have one name.
    """
    values: dict[str, T] = {}
    for word, value in words.items():
        scope, colon, name = word.rpartition(":")
        name = f"{scope}{colon}{name.replace('-', '_')}"
        if name in values:
            raise UserError(f"option {name} is given twice: with dashes and with underscores")
        values[name] = value
    return values


def parsed(
    owner: str, declared: Mapping[str, Declaration], words: Mapping[str, object]
) -> dict[str, Any]:
    """Returns the values of those words that are choices.

    Args:
        owner: what has the choices, for messages.
        words: options as the user wrote them, or values; `none` is None where None is a value.

    Raises:
        UserError: a choice does not accept a word.
    """
    values: dict[str, Any] = {}
    for name, word in words.items():
        if name not in declared:
            continue
        choice = declared[name]
        if choice.optional and isinstance(word, str) and word.lower() == "none":
            values[name] = None
            continue
        try:
            values[name] = choice.parse(word) if isinstance(word, str) else choice.check(word)
        except Unfit as error:
            refusal = _refusal(choice, error)
            raise UserError(f"{owner}: option {name}={word!s:.60}: {refusal}") from None
    return values


def _refusal(choice: Declaration, error: Unfit) -> str:
    """Returns what a choice expected in place of a value, and what was meant."""
    several_words = choice.bounds or choice.rule.expected
    none = f"{',' if several_words else ''} or none" if choice.optional else ""
    return f"expected {error.expected}{none}{f'; {error.hint}' if error.hint else ''}"


# -- classes


def _cached(call: C) -> C:
    """`functools.cache` for functions of a class, which mypy takes for unhashable."""
    return cast(C, functools.cache(call))


@_cached
def _choices(factory: Callable[..., Any]) -> Mapping[str, Declaration]:
    if not (isinstance(factory, type) and issubclass(factory, Options)):
        return _undeclared(factory)
    declarations: dict[str, Declaration] = {}
    hints = _hints(factory)
    groups = _groups(factory)
    declared = {choice.name: choice for choice in _own(factory)}
    for field in dataclasses.fields(factory):
        if field.name in declared:
            declarations[field.name] = declared[field.name]
        elif field.name in groups:
            inner = field.default if field.default is not dataclasses.MISSING else None
            changes = groups[field.name]
            for name, choice in _choices(hints[field.name]).items():
                if name in changes.without:
                    continue
                if name in changes.among:
                    choice = choice.narrowed(changes.among[name])
                default = choice.default
                if inner is not None:
                    default = functools.reduce(getattr, choice.path, inner)
                path = (field.name, *choice.path)
                declarations[name] = dataclasses.replace(choice, default=default, path=path)
    return declarations


@_cached
def _own(cls: type[Any]) -> tuple[Declaration, ...]:
    hints = _hints(cls)
    lines: dict[str, str] | None = None
    declarations = []
    for field in dataclasses.fields(cls):
        rule = field.metadata.get(_RULE)
        if isinstance(rule, _Group) or not field.init:
            continue
        if rule is None:
            lines = argument_lines(cls) if lines is None else lines
            rule = Rule(help=lines.get(field.name, ""))
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        elif default is dataclasses.MISSING:
            default = REQUIRED
        declarations.append(
            Declaration(field.name, hints[field.name], default, rule, (field.name,))
        )
    return tuple(declarations)


@_cached
def _groups(cls: type[Any]) -> Mapping[str, _Group]:
    rules = {field.name: field.metadata.get(_RULE) for field in dataclasses.fields(cls)}
    return {name: rule for name, rule in rules.items() if isinstance(rule, _Group)}


def _checked(cls: type[Any], choice: Declaration, value: Any) -> Any:
    """Returns a value as the choice of a class holds it; a default as it is.

    Raises:
        UserError: the choice does not accept it.
    """
    if value is choice.default and not choice.rule.fewest:
        return value
    try:
        return choice.check(value)
    except Unfit as error:
        name = getattr(cls, "name", "")
        owner = f"{name}: " if isinstance(name, str) and name else ""
        refusal = _refusal(choice, error)
        shown = " ".join(str(value).split())[:60]
        raise UserError(f"{owner}{choice.name}={shown}: {refusal}") from None


def _check_group(name: str, inner: Options, changes: _Group) -> None:
    for choice in _choices(type(inner)).values():
        value: Any = functools.reduce(getattr, choice.path, cast(Any, inner))
        if choice.name in changes.without and value != choice.default:
            raise UserError(f"{name}.{choice.name}={value!s:.60}: there is no such choice here")
        among = changes.among.get(choice.name)
        if among is not None and value not in among:
            raise UserError(f"{choice.name}={value!s:.60}: expected {' or '.join(among)}")


def _undeclared(factory: Callable[..., object]) -> Mapping[str, Declaration]:
    """Returns the choices of a class or factory that declares none: its parameters."""
    parameters = inspect.signature(factory).parameters
    hints: Mapping[str, Any] = {}
    with contextlib.suppress(NameError, TypeError):
        # a dataclass's are evaluated in the module of each field, which may be that of a base
        hints = typing.get_type_hints(factory)
    if not hints.keys() >= parameters.keys():
        with contextlib.suppress(NameError):  # imported for type checkers only
            parameters = inspect.signature(factory, eval_str=True).parameters
        hints = {}
    lines = argument_lines(factory)
    return {
        name: Declaration(
            name,
            hints.get(name, parameter.annotation),
            REQUIRED if parameter.default is parameter.empty else parameter.default,
            Rule(help=lines.get(name, "")),
            (name,),
        )
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def _with(factory: Callable[..., Any], base: Any, values: Mapping[str, Any]) -> Any:
    """Calls a class with values by name; the other fields are those of `base`."""
    declared = _choices(factory)
    direct: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        path = declared[name].path if name in declared else (name,)
        if len(path) == 1:
            direct[name] = value
        else:
            inner.setdefault(path[0], {})[name] = value
    for field, group_values in inner.items():
        cls = _hints(cast("type[Any]", factory))[field]
        defaults = direct.get(field) or getattr(base, field, None) or _default(factory, field)
        direct[field] = _with(cls, defaults, group_values)
    return factory(**direct) if base is None else dataclasses.replace(base, **direct)


def _default(cls: Any, name: str) -> Any:
    field = next(field for field in dataclasses.fields(cls) if field.name == name)
    return None if field.default is dataclasses.MISSING else field.default


@_cached
def _hints(cls: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


# -- docstrings of classes that declare nothing

_ARGS = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^    ([\w, ]+):((?: .*)?(?:\n {8}.*)*)", re.MULTILINE)


def argument_lines(factory: Callable[..., object]) -> dict[str, str]:
    """Returns name -> what the `Args` or `Attributes` of a class and its bases say, in one line."""
    lines: dict[str, str] = {}
    for part in inspect.getmro(factory) if isinstance(factory, type) else (factory,):
        section = _ARGS.search(inspect.cleandoc(part.__doc__ or ""))
        for names, text in _ARGUMENT.findall(section[1]) if section else ():
            line = " ".join(text.split())
            if not line.startswith("as of every "):
                lines = dict.fromkeys((n.strip() for n in names.split(",")), line) | lines
    return lines


# -- types

_MAPPINGS = (Mapping, dict)

_PLURAL = re.compile(r"a (string|number|whole number)((?: (?:from|above|at most|below) .*)?)")


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) in (tuple, list, Sequence, Iterable, Collection)


def _is(kind: Any, value: object) -> bool:
    """Returns whether a value is of a type; a type that is not understood takes all."""
    if typing.get_origin(kind) is Literal:
        return any(value == name and type(value) is type(name) for name in typing.get_args(kind))
    if kind is float:
        try:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and math.isfinite(cast(float, value))
        except OverflowError:  # a whole number larger than all of `float`
            return False
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (str, bool):
        return isinstance(value, kind)
    if typing.get_origin(kind) in _MAPPINGS:
        return isinstance(value, Mapping)
    if typing.get_origin(kind) is os.PathLike:
        return isinstance(value, os.PathLike)
    return True


def _read(kind: Any, word: str) -> Any:
    """Returns the value of a type that a word stands for; `REQUIRED` for none."""
    if typing.get_origin(kind) is Literal:
        return next((v for v in typing.get_args(kind) if str(v) == word), REQUIRED)
    if kind is bool:
        return {"true": True, "false": False}.get(word.lower(), REQUIRED)
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return whole_number(word) if kind is int else finite_number(word)
        return REQUIRED
    return word


def _schema(annotation: Any) -> dict[str, Any]:
    kinds = [kind for kind in _members(annotation) if kind is not type(None)]
    if len(kinds) > 1:
        return {"anyOf": [_schema(kind) for kind in kinds]}
    kind = kinds[0]
    if typing.get_origin(kind) is Literal:
        return {"enum": list(typing.get_args(kind))}
    if _is_list(kind):
        return {"type": "array", "items": _schema(typing.get_args(kind)[0])}
    if typing.get_origin(kind) in _MAPPINGS:
        return {"type": "object", "additionalProperties": _schema(typing.get_args(kind)[1])}
    if isinstance(kind, type) and issubclass(kind, Options):
        return json_schema(kind)
    words = {str: "string", int: "integer", float: "number", bool: "boolean"}
    return {"type": words[kind]} if kind in words else {}


def json_schema(cls: type[Options]) -> dict[str, Any]:
    """Returns the JSON schema of a table with the choices of a class as its keys.

    A choice may be a table with choices of its own, a list of such tables, or names with tables.
    """
    return table_schema(_choices(cls)) | dict(cls.schema_rules())


def table_schema(declared: Mapping[str, Declaration]) -> dict[str, Any]:
    """Returns the JSON schema of a table that has these choices as its keys."""
    document: dict[str, Any] = {
        "type": "object",
        "properties": {choice.key: choice.schema() for choice in declared.values()},
        "additionalProperties": False,
    }
    if needed := required(declared, ()):
        document["required"] = [declared[name].key for name in needed]
    return document


def schema_document(schema: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Returns a JSON schema as a document of its own, which editors read."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


def _joined(low: str, word: str, bound: float) -> str:
    return f"{low}, {word} {bound:,}" if low else f"{word} {bound:,}"
