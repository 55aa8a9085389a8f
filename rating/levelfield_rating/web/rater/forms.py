"""What a plain form says, as events."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from levelfield_rating.answers import Answer
from levelfield_rating.model import RatingCriterion
from levelfield_rating.store.records import Event
from levelfield_rating.web.context import Web
from levelfield_rating.web.rater.visit import Visit
from levelfield_rating.web.security import Turned
from levelfield_rating.web.shown import form_answer


def script_words(web: Web) -> Mapping[str, str]:
    return web.strings.some("js_")


def form_answer_of(
    criterion: RatingCriterion, fields: Mapping[str, str], texts: int, now: Answer | None = None
) -> Answer | None:
    try:
        return form_answer(criterion, fields, texts, now)
    except ValueError as error:
        raise Turned(422, "") from error


def form_event(visit: Visit, kind: Any, item: str, criterion: str, value: Any) -> Event:
    """Returns what a form says; sent twice at the same moment, it is the same event."""
    clock = visit.state.clock + 1
    body = json.dumps([kind, item, criterion, value, clock])
    name = hmac.new(visit.secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return Event(name, kind, item, criterion, value, clock)
