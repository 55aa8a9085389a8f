"""Options of commands: those that choices declare, those that commands share, and their words."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from levelfield.cli.outputs import INPUT, F, with_params
from levelfield.core.options import Declaration, Options, Unfit, choices

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


class Word(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """A word of the command line that stands for a value of a choice, or of one of several.

    Attributes:
        choice: the first.
        choices: all of them, of which one has to accept the word.
    """

    def __init__(self, choice: Declaration, *others: Declaration) -> None:
        self.choice = choice
        self.choices = (choice, *others)
        kinds = {kind for each in self.choices for kind in each.kinds}
        self.name = "number" if float in kinds else "integer" if int in kinds else "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the value; fails with what was expected."""
        if not isinstance(value, str) or value == self.choice.default:
            return value
        errors = []
        for choice in self.choices:
            try:
                return choice.parse(value)
            except Unfit as error:
                errors.append(error)
        from levelfield.io.problems import shown

        expected = list(dict.fromkeys(error.expected for error in errors))
        unfit = Unfit(", or ".join(expected), errors[0].hint)
        self.fail(f"{shown(value)}: {unfit}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:  # noqa: ARG002
        """Returns the names that are accepted, if they are few."""
        names = self.choice.names
        return f"[{'|'.join(names)}]" if 0 < len(names) <= _MOST_NAMES else None

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Returns the names that begin so."""
        return [CompletionItem(name) for name in self.choice.names if name.startswith(incomplete)]


_MOST_NAMES = 6


class DeclaredOption(click.Option):
    """The option of a command that a choice makes.

    Attributes:
        choice: the declaration.
        owner: the class that the command gets a value of.
        bounds: the range, in words.
        read: makes a value of the words; None if they are the value.
    """

    def __init__(
        self,
        choice: Declaration,
        owner: type[Options],
        prefix: str = "",
        others: Sequence[Declaration] = (),
        bounds: str = "",
    ) -> None:
        rule = choice.rule
        is_off = choice.is_flag and choice.default is True
        attrs: dict[str, Any] = {"metavar": rule.metavar or None}
        if choice.is_flag:
            attrs = {"is_flag": True, **({"flag_value": False, "default": True} if is_off else {})}
        elif choice.is_list or choice.is_mapping:
            attrs |= {
                "multiple": True,
                "default": _words(choice.default),
                "required": choice.required,
            }
        elif choice.required:
            attrs["required"] = True
        elif choice.default is not None:
            attrs["default"] = choice.default
        if rule.bare is not None:
            attrs |= {"is_flag": False, "flag_value": rule.bare}
        if not choice.is_flag:
            attrs["type"] = (
                INPUT if rule.is_file else None if choice.is_mapping else Word(choice, *others)
            )
        super().__init__([*choice.flags, prefix + choice.name], help=choice.flag_help, **attrs)
        self.choice = choice
        self.owner = owner
        self.bounds = bounds or choice.bounds
        self.read = rule.read or (self._pairs if choice.is_mapping else None)

    def _pairs(self, words: Sequence[str]) -> dict[str, str]:
        from levelfield.io.reading import pairs

        return pairs(self.choice.flags[0], words)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Returns the range and the default; a default in words is that of the declaration."""
        extra = super().get_help_extra(ctx)
        if not self.choice.is_flag and self.choice.shown_default:
            extra["default"] = self.choice.shown_default
        if self.bounds:
            extra["range"] = self.bounds
        return extra


def _words(default: object) -> list[str]:
    if isinstance(default, Mapping):
        return [f"{name}={value}" for name, value in default.items()]
    return list(map(str, default)) if isinstance(default, tuple) else []


def takes(
    cls: type[Options],
    name: str = "options",
    *,
    without: Collection[str] = (),
    among: Mapping[str, Collection[str]] = {},
    prefix: str = "",
    as_words: bool = False,
) -> Callable[[F], Callable[..., Any]]:
    """Gives a command the options of a class; the command gets them as one value of that class.

    Args:
        name: of the argument that the command gets.
        without: choices that the command does not have; they keep their defaults.
        among: name of a choice -> the names that the command accepts.
        prefix: tells the choices of two classes apart that have one name and different flags.
        as_words: whether the command gets them by name instead, to make the value of them itself.
    """
    declarations = {key: choice for key, choice in choices(cls).items() if key not in without}
    declarations |= {key: declarations[key].narrowed(names) for key, names in among.items()}

    params = [DeclaredOption(choice, cls, prefix) for choice in declarations.values()]

    def value(words: dict[str, Any]) -> dict[str, Any]:
        values = {}
        for param in params:
            word = words.pop(prefix + param.choice.name)
            if param.read:  # of no words there is nothing to read
                word = param.read(word) if word else type(param.choice.default)()
            values[param.choice.name] = word
        return {name: values if as_words else cls.of(**values)}

    return with_params(params, value)


def takes_given(
    classes: Mapping[str, type[Options]], name: str, names: Collection[str]
) -> Callable[[F], Callable[..., Any]]:
    """Gives a command options of several classes, of which the user's other words choose one.

    The command gets name -> value of those that are given. A word is accepted if one of the classes
    that have the choice accepts it; the class that is chosen checks the value again.

    Args:
        classes: what is chosen -> its options.
        name: of the argument that the command gets.
        names: of the options.
    """
    owners = {key: next(c for c in classes.values() if key in choices(c)) for key in names}

    def value(words: dict[str, Any]) -> dict[str, Any]:
        values = {key: words.pop(key) for key in owners}
        return {name: {k: v for k, v in values.items() if v is not None and v is not False}}

    params = []
    for key, owner in owners.items():
        having = {label: choices(c)[key] for label, c in classes.items() if key in choices(c)}
        choice, *others = having.values()
        default = _by_class({label: c.shown_default for label, c in having.items()})
        rule = dataclasses.replace(choice.rule, otherwise=default)
        choice = dataclasses.replace(choice, default=None, rule=rule)
        bounds = _by_class({label: c.bounds for label, c in having.items()})
        params.append(DeclaredOption(choice, owner, others=others, bounds=bounds))
    return with_params(params, value)


def _by_class(words: Mapping[str, str]) -> str:
    """Returns the words about a choice, with the label of each class where they differ."""
    words = {label: word for label, word in words.items() if word}
    if len(set(words.values())) <= 1:
        return next(iter(words.values()), "")
    return ", ".join(f"{label} {word}" for label, word in words.items())


def choice_documents(declarations: Mapping[str, Declaration]) -> dict[str, dict[str, Any]]:
    """Returns name -> default, accepted values and help, as JSON has them.

    `otherwise` says what happens without a value, where the default alone does not tell.
    """
    return {
        name: {
            "default": _default(choice),
            "otherwise": choice.rule.otherwise,
            "values": _values(choice),
            "range": choice.bounds,
            "needed": choice.required,
            "help": choice.rule.help,
        }
        for name, choice in declarations.items()
    }


def choice_lines(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines that explain choices on a terminal."""
    for name, document in documents.items():
        default = "…" if document["needed"] else document["default"]
        values = f"{document['values']} {document['range']}".strip()
        otherwise = f"; default: {document['otherwise']}" if document["otherwise"] else ""
        yield f"  {name}={default}  ({values}{otherwise})"
        help = textwrap.wrap(document["help"], _WIDTH, break_on_hyphens=False)
        yield from (f"    {line}" for line in help)


_WIDTH = 96


def _default(choice: Declaration) -> object:
    if choice.required:
        return None
    value = choice.default
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _values(choice: Declaration) -> str:
    """Returns what a choice accepts, briefly."""
    if choice.names:
        flag = ["true", "false"] if bool in choice.kinds else []
        return "|".join([*choice.names, *flag, *(["None"] if choice.optional else [])])
    annotation = choice.annotation
    if isinstance(annotation, type):
        return annotation.__name__
    # a class without its module
    return re.sub(r"\b[a-z_][\w.]*\.(?=[A-Z])", "", str(annotation)).removeprefix("typing.")
