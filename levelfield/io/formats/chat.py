"""Chats: the messages of a person and an assistant, whose last answer is the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from levelfield.io.formats.preview import Preview
from levelfield.io.json_input import list_of, object_of
from levelfield.io.lines import Row, json_list, jsonl
from levelfield.io.problems import Wrong, kind

_ASSISTANT = "assistant"
_INSTRUCTIONS = ("system", "developer")


def is_chat(preview: Preview) -> bool:
    """Whether a file holds objects with `messages`, an answer among them, and without a text."""
    if "text" in preview.record:
        return False
    messages = preview.record.get("messages", ())
    if messages is None:  # longer than the beginning
        return b'"role"' in preview.content
    return any(object_of(message).get("role") == _ASSISTANT for message in list_of(messages))


def chats(path: Path) -> Iterator[Row]:
    """Yields the chats of a file, one JSON object a line, or the objects of a list.

    The text is the last message of the assistant; the messages before it are the context. System
    messages are kept as `instructions` and aren't turns of the context.
    """
    rows = json_list if Preview(path).begins == "[" else jsonl
    for number, record in rows(path):
        yield number, record if isinstance(record, Wrong) else chat_record(record)


def chat_record(record: Mapping[str, Any]) -> dict[str, Any] | Wrong:
    """Returns a record of a sample for a record with `messages`."""
    messages = record.get("messages")
    if not isinstance(messages, list):
        problem = "missing" if messages is None else f"expected a list, found {kind(messages)}"
        return Wrong(f"{problem}; a chat is a list of objects with role and content", "messages")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            return Wrong(f"message {number}: expected an object with role and content", "messages")
    answers = [i for i, message in enumerate(messages) if message["role"] == _ASSISTANT]
    if not answers:
        return Wrong("no message of the assistant, which would be the text", "messages")
    before, answer = messages[: answers[-1]], messages[answers[-1]]
    return {**asked(before), **record, "text": message_text(answer.get("content"))}


def asked(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the context that messages make, and the instructions where there are any."""
    instructions: list[str] = []
    context: list[str] = []
    for message in messages:
        turns = instructions if message.get("role") in _INSTRUCTIONS else context
        turns.append(message_text(message.get("content")))
    instruction = "\n\n".join(instructions)
    return {"context": context, **({"instructions": instruction} if instruction else {})}


def message_text(content: object) -> str:
    """Returns the text of a message's content: a string, or the texts among its parts.

    >>> message_text([{"type": "text", "text": "What is this?"}, {"type": "image", "image": "…"}])
    'What is this?'
    """
    if isinstance(content, str):
        return content
    texts = [object_of(part).get("text", part) for part in list_of(content)]
    return "\n".join(text for text in texts if isinstance(text, str))
