"""Asks a server: many requests at once, each until it succeeds or can't."""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import os
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from levelfield.core import limits
from levelfield.core.errors import ModelError
from levelfield.core.strings import one_line
from levelfield.io.http import HttpAnswer, TooLongError, new_session, post
from levelfield.models.chat.server import Asking, Server
from levelfield.models.contracts import (
    Alternative,
    AnswerToken,
    ChatAnswer,
    Completion,
    Costs,
    Refusal,
)
from levelfield.models.tokens import unique

if TYPE_CHECKING:
    import requests


TOO_LONG = "the server takes no prompt as long as this"
FILTERED = "the server's content filter refuses it"


class FailedForNowError(Exception):
    """A request that may succeed when it is sent again."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RejectedError(Exception):
    """A request that fails however often it is sent."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self._code = code

    @property
    def concerns_prompt(self) -> str:
        """Why it is this prompt that the server does not take; empty if it is something else."""
        if self.status not in (400, 413, 422):
            return ""
        words = str(self).casefold()
        too_long = self._code == "context_length_exceeded" or "context length" in words
        if too_long or self.status == 413:
            return TOO_LONG
        return FILTERED if self._code == "content_filter" else ""


class StoppedError(Exception):
    """Another thread failed, or the user interrupted the work."""


def words_of(response: HttpAnswer) -> tuple[str, str]:
    """Returns the code and the words of an error, whichever way a server puts them."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return "", response.text
    code: object = ""
    for name in ("error", "message", "detail"):
        if isinstance(body, dict):
            code = body.get("code") or code
            body = body.get(name, body)
    return str(code), body if isinstance(body, str) else json.dumps(body)


def short(words: object) -> str:
    """Returns the words on one line of at most 200 characters."""
    line = one_line(words)
    return line if len(line) <= 200 else f"{line[:200]}…"


def failure_of(error: requests.RequestException) -> str:
    """Returns what went wrong with a request, in words."""
    import requests

    match error:
        case requests.exceptions.SSLError():
            return "the server's certificate is not trusted"
        case requests.exceptions.ProxyError():
            return "the proxy does not let it through"
        case (
            requests.exceptions.ChunkedEncodingError() | requests.exceptions.ContentDecodingError()
        ):
            return "the connection breaks off"
        case requests.ConnectionError():
            return "no connection, or it breaks off"
    return type(error).__name__


def retry_after(value: str) -> float:
    """Returns the seconds that a server asks to wait; it may write a number or a date."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        date = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
        seconds = (date - datetime.datetime.now(datetime.UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def answers_in(body: Any) -> list[ChatAnswer]:
    """Returns the answers in the body of a response.

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
    logprobs = choice.get("logprobs")
    steps = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not steps:
        return ChatAnswer(content or "")
    if not isinstance(steps, list):
        raise ValueError("choices.logprobs.content is not a list")
    return ChatAnswer(content or "", tuple(_step(step) for step in steps))


def _step(step: Any) -> AnswerToken:
    token = _alternative(step)
    entries = step.get("top_logprobs") or []
    if not isinstance(entries, list):
        raise ValueError("top_logprobs is not a list")
    alternatives = [_alternative(entry) for entry in entries]
    if token.token not in [alternative.token for alternative in alternatives]:
        alternatives.append(token)  # an answer that was drawn need not be among the likeliest
    return AnswerToken(token.token, tuple(alternatives))


def _alternative(entry: Any) -> Alternative:
    token, log_p = (entry.get(k) for k in ("token", "logprob")) if isinstance(entry, dict) else "??"
    if not isinstance(token, str) or not isinstance(log_p, float | int) or math.isnan(log_p):
        raise ValueError("a token without a log-probability")
    return Alternative(token, min(0.0, float(log_p)))


T = TypeVar("T")
R = TypeVar("R")

_LISTEN_S = 0.2


def results_in_threads(
    work: Callable[[T, threading.Event], R], items: Sequence[T], threads: int
) -> Iterator[R]:
    """Yields the results of `work` on all items in their order, each when those before it are done;
    `threads` run at once.

    The first exception, Ctrl-C among them, is raised at once: `work` is told by the event, and
    nobody waits for unfinished work, since the threads are daemons.
    """
    todo: queue.SimpleQueue[tuple[int, T]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R | BaseException]] = queue.SimpleQueue()
    stop = threading.Event()
    for numbered in enumerate(items):
        todo.put(numbered)

    def run() -> None:
        while not stop.is_set():
            try:
                place, item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((place, work(item, stop)))
            except BaseException as error:
                done.put((place, error))
                return

    for _ in range(min(threads, len(items))):
        threading.Thread(target=run, daemon=True).start()
    waiting: dict[int, R] = {}
    next_place = 0
    try:
        while next_place < len(items):
            try:
                place, result = done.get(
                    timeout=_LISTEN_S
                )  # a wait without end may not hear Ctrl-C
            except queue.Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            waiting[place] = result
            while next_place in waiting:
                yield waiting.pop(next_place)
                next_place += 1
    finally:
        stop.set()


LONGEST_WAIT_S = 300.0
"""A server that asks for more patience than this is not waited for."""

FIRST_WAIT_S, LAST_WAIT_S = 1.0, 30.0
"""Pauses before a request is sent again: the first, and the longest."""

_TRY_AGAIN = (408, 409, 425, 429)
_PROBE = "Answer with the number 1 and nothing else."


class ChatClient:
    """A chat model on a server.

    Requests that fail for a time (status 408, 409, 425, 429 and 5xx, silence, broken connections,
    answers that are not the JSON they should be) are sent again, each time after a pause twice as
    long and a random bit more; `Retry-After` is obeyed by all threads. Whatever else the server
    says no to is an error at once, with the server's words. The key is in no error.
    """

    def __init__(self, server: Server, asking: Asking) -> None:
        self.server = server
        self.asking = asking
        self._lock = threading.Lock()
        self._costs = Costs()
        self._sessions: deque[requests.Session] = deque()
        self._not_before = 0.0
        self._several = True
        self._tells: bool | None = None
        self._jitter = random.Random()

    @property
    def costs(self) -> Costs:
        """Of everything asked so far."""
        with self._lock:
            return self._costs

    def gives_log_probabilities(self) -> bool:
        """Returns whether the server tells the alternatives of each token; asked once, by a short
        prompt.

        Raises:
            ModelError: the server can't be used at all.
        """
        if self._tells is None:
            stop = threading.Event()
            try:
                (answer,) = self._ask(_Question(_PROBE, 1, None, True), stop)
                self._tells = bool(answer.steps)
            except RejectedError as rejected:
                if rejected.status not in (400, 422):
                    raise self._error(rejected) from None
                try:  # it may be that it knows no log-probabilities, or that nothing works
                    self._ask(_Question(_PROBE, 1, None, False), stop)
                except RejectedError as again:
                    raise self._error(again) from None
                self._tells = False
        return self._tells

    def answers(
        self, prompts: Sequence[str], *, n: int, temperature: float, log_probabilities: bool
    ) -> list[list[ChatAnswer] | Refusal]:
        """Returns `n` answers to each prompt, in the order of the prompts; equal prompts are sent
        once.

        Raises:
            ModelError: the server says no, or fails more often than `retries`.
        """

        def ask(prompt: str, stop: threading.Event) -> list[ChatAnswer] | Refusal:
            try:
                return self._ask(_Question(prompt, n, temperature, log_probabilities), stop)
            except RejectedError as rejected:
                return self._refusal_of_prompt(rejected)

        distinct, place = unique(prompts)
        results = list(results_in_threads(ask, distinct, self.server.concurrency))
        return [results[i] for i in place]

    def completions(self, chats: Sequence[Mapping[str, object]]) -> Iterator[Completion | Refusal]:
        """Returns what the server writes to continue each chat, in their order, as it comes.

        Args:
            chats: bodies of requests, `messages` and whatever else the server is to know, without
                the model.

        Raises:
            ModelError: the server says no, or fails more often than `retries`.
        """

        def ask(chat: Mapping[str, object], stop: threading.Event) -> Completion | Refusal:
            begin = time.perf_counter()
            try:
                response = self._post({"model": self.asking.model, **chat}, stop)
            except RejectedError as rejected:
                return self._refusal_of_prompt(rejected)
            seconds = time.perf_counter() - begin
            return Completion(response.answers[0].text, response.tokens, seconds)

        return results_in_threads(ask, chats, self.server.concurrency)

    def _ask(self, question: _Question, stop: threading.Event) -> list[ChatAnswer]:
        answers: list[ChatAnswer] = []
        while len(answers) < question.n:
            n = question.n - len(answers) if self._several else 1
            try:
                response = self._post(self._request(question, n, len(answers)), stop)
            except RejectedError as rejected:
                if n == 1 or rejected.status not in (400, 422) or rejected.concerns_prompt:
                    raise
                self._several = False  # some servers give one answer at a time: it is seen now
                continue
            answers += response.answers[:n]
        return answers

    def _request(self, question: _Question, n: int, already: int) -> dict[str, object]:
        asking = self.asking
        body: dict[str, object] = {
            "model": asking.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": question.temperature,
            "seed": None if asking.seed is None else asking.seed + already,
            "max_tokens": asking.max_tokens,
            "n": n if n > 1 else None,
        }
        if question.log_probabilities:
            body |= {"logprobs": True, "top_logprobs": asking.top_logprobs}
        return {name: value for name, value in body.items() if value is not None}

    def _post(self, request: Mapping[str, object], stop: threading.Event) -> _Response:
        """Returns the response to one request, which is sent until there is one."""
        wait = FIRST_WAIT_S
        for attempt in range(self.server.retries + 1):
            self._pause(max(0.0, self._not_before - time.monotonic()), stop)
            self.count(requests=1, retries=int(attempt > 0))
            try:
                return self._try(request)
            except FailedForNowError as failed:
                failure = failed
            if failure.retry_after > LONGEST_WAIT_S:
                raise RejectedError(
                    429, f"{failure} and asks for a wait of {failure.retry_after:,.0f} s"
                )
            if attempt < self.server.retries:
                self._not_before = max(self._not_before, time.monotonic() + failure.retry_after)
                self._pause(wait * (1 + self._jitter.random()), stop)
                wait = min(2 * wait, LAST_WAIT_S)
        tries = self.server.retries + 1
        raise RejectedError(0, f"{failure} ({tries} {'try' if tries == 1 else 'tries'})")

    def _try(self, request: Mapping[str, object]) -> _Response:
        import requests

        try:
            session = self._sessions.pop()
        except IndexError:
            session = new_session()
        try:
            response = post(
                session,
                self.server.address,
                json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"),
                auth=self._authorise,
                seconds=self.server.timeout,
                most=limits.ANSWER_BYTES,
            )
        except TooLongError as error:
            raise RejectedError(0, f"{error}; max_tokens makes it shorter") from error
        except requests.Timeout as error:
            raise FailedForNowError(
                f"no complete answer within {self.server.timeout:g} s, the limit set by timeout"
            ) from error
        except requests.RequestException as error:
            raise FailedForNowError(failure_of(error)) from error
        self._sessions.append(session)
        if response.status != requests.codes.ok:
            raise self._refusal(response)
        try:
            body = response.json()
            answers = answers_in(body)
        except (ValueError, RecursionError) as error:
            raise FailedForNowError(
                f"the answer does not follow the protocol: {short(error)}"
            ) from error
        usage = body.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        tokens = _whole(usage.get("completion_tokens"))
        self.count(prompt_tokens=_whole(usage.get("prompt_tokens")), answer_tokens=tokens)
        return _Response(answers, tokens)

    def _refusal(self, response: HttpAnswer) -> FailedForNowError | RejectedError:
        """Returns what a status other than 200 means."""
        code, words = words_of(response)
        words = short(self._without_key(words))
        message = f"the server says {response.status}{': ' if words else ''}{words}"
        transient = response.status in _TRY_AGAIN or response.status >= 500
        if transient and code != "insufficient_quota":
            return FailedForNowError(message, retry_after(response.headers.get("Retry-After", "")))
        return RejectedError(response.status, message, code)

    def _authorise(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # as a callable, since `requests` would else look for another key in ~/.netrc
        if key := self._key:
            if not (key.isascii() and key.isprintable()):
                raise RejectedError(0, f"the value of ${self.server.key_variable} is not a key")
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    @property
    def _key(self) -> str:
        name = self.server.key_variable
        return os.environ.get(name, "").strip() if name else ""

    def _without_key(self, words: str) -> str:
        return words.replace(self._key, "…") if self._key else words

    def _refusal_of_prompt(self, rejected: RejectedError) -> Refusal:
        """Returns why the server never answers this prompt.

        Raises:
            ModelError: the server's reason is not the prompt.
        """
        if reason := rejected.concerns_prompt:
            return Refusal(reason)
        raise self._error(rejected) from None

    def _error(self, rejected: RejectedError) -> ModelError:
        message = self._without_key(str(rejected))
        mend = {
            401: "; give a key in "
            f"${self.server.key_variable or 'a variable that key_variable names'}",
            404: "; check that base_url is right and that the server has the model",
        }.get(rejected.status, "")
        return ModelError(
            f"model '{self.asking.model}' at {self.server.base_url} can't be asked: {message}{mend}"
        )

    def _pause(self, seconds: float, stop: threading.Event) -> None:
        if stop.wait(seconds) if seconds > 0 else stop.is_set():
            raise StoppedError

    def count(self, **more: int) -> None:
        """Adds to the costs, by their names; answers are counted by whoever reads them."""
        with self._lock:
            self._costs = self._costs._replace(
                **{name: getattr(self._costs, name) + by for name, by in more.items()}
            )


class _Question(NamedTuple):
    prompt: str
    n: int
    temperature: float | None
    log_probabilities: bool


class _Response(NamedTuple):
    answers: list[ChatAnswer]
    tokens: int


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
