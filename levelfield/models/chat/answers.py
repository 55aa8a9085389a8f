"""Answers in the body of a response."""

from __future__ import annotations

import math
from typing import Any

from levelfield.models.contracts import Alternative, AnswerToken, ChatAnswer


def answers_in(body: Any) -> list[ChatAnswer]:
    """The answers in the body of a response.

    Raises:
        ValueError: it is not such a body; says where.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise ValueError("no choices")
    return [_answer(choice) for choice in choices]


def _answer(choice: Any) -> ChatAnswer:
    message = choice.get("message") if isinstance(choice, dict) else None
    content = message.get("content", "") if isinstance(message, dict) else 0
    if not isinstance(content, str | None):
        raise ValueError("no text in choices.message.content")
    told = choice.get("logprobs")
    steps = told.get("content") if isinstance(told, dict) else None
    if not steps:
        return ChatAnswer(content or "")
    if not isinstance(steps, list):
        raise ValueError("choices.logprobs.content is no list")
    return ChatAnswer(content or "", tuple(_step(step) for step in steps))


def _step(step: Any) -> AnswerToken:
    own = _alternative(step)
    others = step.get("top_logprobs") or []
    if not isinstance(others, list):
        raise ValueError("top_logprobs is no list")
    found = [_alternative(other) for other in others]
    if own.token not in [other.token for other in found]:
        found.append(own)  # an answer that was drawn need not be among the likeliest
    return AnswerToken(own.token, tuple(found))


def _alternative(given: Any) -> Alternative:
    token, log_p = (given.get(k) for k in ("token", "logprob")) if isinstance(given, dict) else "??"
    if not isinstance(token, str) or not isinstance(log_p, float | int) or math.isnan(log_p):
        raise ValueError("a token without a log-probability")
    return Alternative(token, min(0.0, float(log_p)))
