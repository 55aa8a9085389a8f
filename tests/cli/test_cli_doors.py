"""Every declared option of every command has one range and one message at every door."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from levelfield.cli import levelfield
from levelfield.cli.options import DeclaredOption
from levelfield.core.errors import UserError
from levelfield.core.options import Declaration, Unfit, choices
from levelfield.io.toml import TomlTable

BEGINNINGS = {
    *("Of", "For", "To", "With", "Without", "In", "On", "At", "By", "From", "As"),
    *("Only", "Where", "What", "Whose", "How", "Which", "Else", "It", "So"),
    *("Above", "Also", "Any", "Everything", "More", "Our", "Who", "Whom", "Why", "A", "An", "The"),
}
"""Words that a help text does not begin with: neither verbs nor nouns."""


def commands(
    command: click.Command = levelfield, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command, info_name="levelfield")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))
    yield " ".join(path), command


OPTIONS = {
    f"{path} {param.opts[0]}".strip(): param
    for path, command in commands()
    for param in command.params
    if isinstance(param, click.Option)
}


def outside(choice: Declaration) -> list[object]:
    """Values that a choice with a range, or of names, does not accept."""
    rule = choice.rule
    values: list[object] = []
    if rule.least is not None:
        values.append(type(rule.least)(rule.least - 1))
    if rule.most is not None:
        values.append(type(rule.most)(rule.most + 1))
    values += [bound for bound in (rule.above, rule.below) if bound is not None]
    values += ["no-such-name"] if choice.names and str not in choice.item_kinds else []
    values += ["no-such-name"] if rule.among is not None else []
    values += ["no such name"] if rule.fits and str in choice.item_kinds else []
    values += [1] if rule.fits and int in choice.item_kinds and not rule.fits(1) else []
    return values


def is_refused(choice: Declaration, value: object) -> bool:
    try:
        choice.check_item(value)
    except Unfit:
        return True
    return False


CASES = {
    f"{name} {value}": (param, value)
    for name, param in OPTIONS.items()
    if isinstance(param, DeclaredOption)
    for declared in getattr(param.type, "choices", [param.choice])
    for value in outside(declared)
    if all(is_refused(choice, value) for choice in getattr(param.type, "choices", ()))
}


def test_values_outside_are_refused_with_the_same_words_through_all_doors(
    subtests: pytest.Subtests,
):
    tried: set[tuple[str, int, str]] = set()
    for case, (option, value) in CASES.items():
        rule = (option.choice.name, id(option.choice.rule), repr(value))
        if rule not in tried:
            tried.add(rule)
            with subtests.test(case=case):
                check_refusal(option, value)


def check_refusal(option: DeclaredOption, value: object) -> None:
    choice = choices(option.owner)[option.choice.name]
    with pytest.raises(Unfit) as expected:
        option.choice.check_item(value)
    with pytest.raises(click.BadParameter) as typed:
        option.type.convert(str(value), option, None)
    assert f"expected {expected.value.expected}" in typed.value.message
    item = [value] if choice.is_list else value
    with pytest.raises(Unfit) as expected:
        choice.check_item(value)
    with pytest.raises(UserError) as called:
        option.owner.of(**{choice.name: item})
    assert f"{choice.name}=" in str(called.value)
    assert f"expected {expected.value.expected}" in str(called.value)
    problems: list[str] = []
    TomlTable({choice.key: item}, "here", problems).values(option.owner)
    line = next(problem for problem in problems if problem.startswith(f"here: {choice.key}"))
    assert f"expected {expected.value.expected}; found" in line


def descriptions(schema: object) -> Iterator[str]:
    """All that a JSON schema says of keys."""
    inner = schema if isinstance(schema, list) else []
    if isinstance(schema, dict):
        inner = list(schema.values())
        if isinstance(schema.get("description"), str):
            yield schema["description"]
    for part in inner:
        yield from descriptions(part)


def is_plain(text: str) -> bool:
    """Whether a help text is a sentence that begins with a verb or a noun."""
    begins = text[0].isupper() and text.split()[0].rstrip(",") not in BEGINNINGS
    return begins and text.endswith(".")


def test_the_help_of_a_command_begins_with_a_verb_or_a_noun():
    texts = [command.get_short_help_str(1_000) for _, command in commands() if command.help]
    assert [text for text in texts if not is_plain(text)] == []


def test_what_schemas_say_of_a_key_begins_with_a_verb_or_a_noun():
    from levelfield.study.plan_file import schema as study_schema
    from levelfield_rating.plan.file import schema as rating_schema

    texts = [*descriptions(rating_schema()), *descriptions(study_schema())]
    assert len(texts) > 100
    assert [text for text in texts if not is_plain(text)] == []


def test_every_option_with_a_range_or_names_is_tried():
    tried = {id(param) for param, _ in CASES.values()}
    declared = {name: param for name, param in OPTIONS.items() if isinstance(param, DeclaredOption)}
    limited = {
        name
        for name, param in declared.items()
        if param.choice.bounds or param.choice.names or param.choice.rule.fits
    }
    assert len(limited) > 130
    assert {name for name in limited if id(declared[name]) not in tried} == set()


@pytest.mark.parametrize(
    ("arch", "epochs", "message"),
    [("fasttext", "1.5", "expected a whole number from 1"), ("textcnn", "0.5", "no-such-file")],
)
def test_an_option_of_several_classes_accepts_what_the_chosen_one_does(
    arch: str, epochs: str, message: str
):
    words = ["train", "judge", "no-such-file.jsonl", "--attribute", "a", "--out", "x"]
    done = CliRunner().invoke(levelfield, [*words, "--arch", arch, "--epochs", epochs])
    assert message in f"{done.output} {done.exception}"


def test_the_help_of_an_option_begins_with_a_verb_or_a_noun_and_ends_with_a_full_stop():
    unclear = {}
    for name, option in OPTIONS.items():
        words = (option.help or "").partition("  [")[0].partition(" [default")[0].rstrip()
        begins = words and (words[0].isupper() or not words[0].isalpha())
        if not (begins and words.split()[0].rstrip(",") not in BEGINNINGS and words[-1] == "."):
            unclear[name] = words
    assert unclear == {}


def test_a_flag_that_turns_an_option_off_and_the_option_in_python_have_a_help_of_their_own():
    """`--no-cache` computes all values again; `score(cache=True)` does not."""
    off = {name: option for name, option in OPTIONS.items() if option.opts[0].startswith("--no-")}
    assert "score --no-cache" in off
    for name, option in off.items():
        rule = option.choice.rule
        assert rule.flag_help not in ("", rule.help), name
        assert option.help == rule.flag_help, name
