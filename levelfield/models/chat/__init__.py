"""Answers of chat models behind any server that speaks OpenAI's chat-completions protocol."""

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
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from levelfield.core.errors import ModelError, UserError
from levelfield.models.batching import unique

if TYPE_CHECKING:
    import requests

T = TypeVar("T")
R = TypeVar("R")

LONGEST_WAIT_S = 300.0
"""A server that asks for more patience than this is not waited for."""

TOO_LONG = "the server takes no prompt as long as this"
FILTERED = "the server's content filter refuses it"

_CONNECT_S = 10.0
_LISTEN_S = 0.2
_FIRST_WAIT_S, _LAST_WAIT_S = 1.0, 30.0
_TRY_AGAIN = (408, 409, 425, 429)
_PROBE = "Answer with the number 1 and nothing else."


class Alternative(NamedTuple):
    """A token that could have stood at a place, and its log-probability in nats."""

    token: str
    log_p: float


class Step(NamedTuple):
    """A token of an answer, and the likeliest ones at its place, itself among them."""

    token: str
    alternatives: tuple[Alternative, ...]


class Answer(NamedTuple):
    """What a model wrote, and token by token what else it could have; None if that is not told."""

    text: str
    steps: tuple[Step, ...] | None = None


class Refused(NamedTuple):
    """Why a server answers this prompt never, and others perhaps."""

    reason: str


class Costs(NamedTuple):
    """What asking took.

    Attributes:
        requests: all that were sent; `retries` of them again.
        prompt_tokens, answer_tokens: as the server counts them; 0 where it does not.
        answers: those that were read, `unparsable` of them in vain.

    >>> print(Costs(64, 2, 12_000, 64, 62, 1))
    64 requests (2 again), 12,000 prompt tokens, 64 answer tokens, 1 of 62 answers unparsable
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    answers: int = 0
    unparsable: int = 0

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests ({self.retries:,} again), "
            f"{self.prompt_tokens:,} prompt tokens, {self.answer_tokens:,} answer tokens, "
            f"{self.unparsable:,} of {self.answers:,} answers unparsable"
        )


class ChatModel(Protocol):
    """The seam for what answers prompts in words."""

    @property
    def costs(self) -> Costs: ...
    def count(self, **more: int) -> None: ...
    def gives_log_probabilities(self) -> bool: ...
    def answers(
        self, prompts: Sequence[str], *, n: int, temperature: float, log_probabilities: bool
    ) -> list[list[Answer] | Refused]: ...


@dataclass(frozen=True)
class Server:
    """Where to ask, and how patiently.

    Attributes:
        base_url: up to and without `/chat/completions`, e.g. `http://localhost:8000/v1`.
        key_variable: the environment variable that holds the key; empty, or a variable that is
            not set: no key is sent.
        concurrency: requests under way at once.
        timeout: seconds that the server may be silent.
        retries: how often a request that failed is sent again.

    Raises:
        UserError: `base_url` is not the address of a server.
    """

    base_url: str
    key_variable: str = "OPENAI_API_KEY"
    concurrency: int = 8
    timeout: float = 60.0
    retries: int = 5

    def __post_init__(self) -> None:
        expected = "expected an address such as http://localhost:8000/v1"
        try:
            parsed = urllib.parse.urlsplit(self.base_url)
            _ = parsed.port
        except ValueError as error:
            raise UserError(f"base_url: {error}; {expected}") from error
        if parsed.username is not None or parsed.password is not None:
            raise UserError(
                "base_url: a name or a password is in it; the key belongs into the environment "
                "variable that key_variable names"
            )
        if parsed.scheme not in ("http", "https") or not parsed.hostname or parsed.query:
            raise UserError(f"base_url={self.base_url}: {expected}")

    @property
    def host(self) -> str:
        """The server's name, without the port."""
        return urllib.parse.urlsplit(self.base_url).hostname or ""

    @property
    def address(self) -> str:
        """Where requests go."""
        return f"{self.base_url.rstrip('/')}/chat/completions"


@dataclass(frozen=True)
class Asking:
    """What a server is asked for with every prompt; None leaves a choice to the server.

    Attributes:
        model: the server's name of it.
        seed: of sampling; answers that are asked for later have seeds counted on from it.
        max_tokens: of an answer.
        top_logprobs: how many alternatives for a token are asked for.
    """

    model: str
    seed: int | None = None
    max_tokens: int | None = None
    top_logprobs: int = 20


class ChatClient:
    """A chat model behind a server.

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
        """Whether the server tells the alternatives of each token; asked once, by a short prompt.

        Raises:
            ModelError: the server can't be used at all.
        """
        if self._tells is None:
            stop = threading.Event()
            try:
                (answer,) = self._ask(_Question(_PROBE, 1, None, True), stop)
                self._tells = bool(answer.steps)
            except _RejectedError as rejected:
                if rejected.status not in (400, 422):
                    raise self._error(rejected) from None
                try:  # it may be that it knows no log-probabilities, or that nothing works
                    self._ask(_Question(_PROBE, 1, None, False), stop)
                except _RejectedError as again:
                    raise self._error(again) from None
                self._tells = False
        return self._tells

    def answers(
        self, prompts: Sequence[str], *, n: int, temperature: float, log_probabilities: bool
    ) -> list[list[Answer] | Refused]:
        """`n` answers to each prompt, in the order of the prompts; equal prompts are sent once.

        Raises:
            ModelError: the server says no, or fails more often than `retries`.
        """

        def ask(prompt: str, stop: threading.Event) -> list[Answer] | Refused:
            try:
                return self._ask(_Question(prompt, n, temperature, log_probabilities), stop)
            except _RejectedError as rejected:
                if reason := rejected.concerns_prompt:
                    return Refused(reason)
                raise self._error(rejected) from None

        distinct, place = unique(prompts)
        found = in_threads(ask, distinct, self.server.concurrency)
        return [found[at] for at in place]

    def _ask(self, question: _Question, stop: threading.Event) -> list[Answer]:
        answers: list[Answer] = []
        while len(answers) < question.n:
            want = question.n - len(answers) if self._several else 1
            try:
                found = self._post(self._request(question, want, len(answers)), stop)
            except _RejectedError as rejected:
                if want == 1 or rejected.status not in (400, 422) or rejected.concerns_prompt:
                    raise
                self._several = False  # some servers give one answer at a time: it is seen now
                continue
            answers += found[:want]
        return answers

    def _request(self, question: _Question, n: int, already: int) -> dict[str, object]:
        asking = self.asking
        wanted: dict[str, object] = {
            "model": asking.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": question.temperature,
            "seed": None if asking.seed is None else asking.seed + already,
            "max_tokens": asking.max_tokens,
            "n": n if n > 1 else None,
        }
        if question.log_probabilities:
            wanted |= {"logprobs": True, "top_logprobs": asking.top_logprobs}
        return {name: value for name, value in wanted.items() if value is not None}

    def _post(self, request: Mapping[str, object], stop: threading.Event) -> list[Answer]:
        """The answers to one request, which is sent until there are some."""
        wait = _FIRST_WAIT_S
        for attempt in range(self.server.retries + 1):
            self._pause(max(0.0, self._not_before - time.monotonic()), stop)
            self.count(requests=1, retries=int(attempt > 0))
            try:
                return self._try(request)
            except _FailedForNowError as failed:
                failure = failed
            if failure.retry_after > LONGEST_WAIT_S:
                raise _RejectedError(
                    429, f"{failure} and wants {failure.retry_after:,.0f} s of patience"
                )
            if attempt < self.server.retries:
                self._not_before = max(self._not_before, time.monotonic() + failure.retry_after)
                self._pause(wait * (1 + self._jitter.random()), stop)
                wait = min(2 * wait, _LAST_WAIT_S)
        tries = self.server.retries + 1
        raise _RejectedError(0, f"{failure} ({tries} {'try' if tries == 1 else 'tries'})")

    def _try(self, request: Mapping[str, object]) -> list[Answer]:
        import requests

        try:
            session = self._sessions.pop()
        except IndexError:
            session = requests.Session()
        try:
            response = session.post(
                self.server.address,
                data=json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"),
                headers={"Content-Type": "application/json"},
                auth=self._authorise,
                timeout=(_CONNECT_S, self.server.timeout),
                allow_redirects=False,
            )
        except requests.Timeout as error:
            raise _FailedForNowError(f"no answer within {self.server.timeout:g} s") from error
        except requests.RequestException as error:
            raise _FailedForNowError(_lost(error)) from error
        self._sessions.append(session)
        if response.status_code != requests.codes.ok:
            raise self._refusal(response)
        try:
            body = response.json()
            answers = _answers(body)
        except (ValueError, RecursionError) as error:
            raise _FailedForNowError(
                f"the answer is not what the protocol has: {_short(error)}"
            ) from error
        usage = body.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        self.count(
            prompt_tokens=_whole(usage.get("prompt_tokens")),
            answer_tokens=_whole(usage.get("completion_tokens")),
        )
        return answers

    def _refusal(self, response: requests.Response) -> _FailedForNowError | _RejectedError:
        """What a status other than 200 means."""
        code, words = _words(response)
        words = _short(self._without_key(words))
        said = f"the server says {response.status_code}{': ' if words else ''}{words}"
        transient = response.status_code in _TRY_AGAIN or response.status_code >= 500
        if transient and code != "insufficient_quota":
            return _FailedForNowError(said, _retry_after(response.headers.get("Retry-After", "")))
        return _RejectedError(response.status_code, said, code)

    def _authorise(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # as a callable, since `requests` would else look for another key in ~/.netrc
        if key := self._key:
            if not (key.isascii() and key.isprintable()):
                raise _RejectedError(0, f"what ${self.server.key_variable} holds is no key")
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    @property
    def _key(self) -> str:
        name = self.server.key_variable
        return os.environ.get(name, "").strip() if name else ""

    def _without_key(self, words: str) -> str:
        return words.replace(self._key, "…") if self._key else words

    def _error(self, rejected: _RejectedError) -> ModelError:
        said = self._without_key(str(rejected))
        mend = {
            401: "; give a key in "
            f"${self.server.key_variable or 'a variable that key_variable names'}",
            404: "; is base_url right, and does the server have the model?",
        }.get(rejected.status, "")
        return ModelError(
            f"model '{self.asking.model}' at {self.server.base_url} can't be asked: {said}{mend}"
        )

    def _pause(self, seconds: float, stop: threading.Event) -> None:
        if stop.wait(seconds) if seconds > 0 else stop.is_set():
            raise _StoppedError

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


class _FailedForNowError(Exception):
    """A request that may succeed when it is sent again."""

    def __init__(self, said: str, retry_after: float = 0.0) -> None:
        super().__init__(said)
        self.retry_after = retry_after


class _RejectedError(Exception):
    """A request that fails however often it is sent."""

    def __init__(self, status: int, said: str, code: str = "") -> None:
        super().__init__(said)
        self.status = status
        self._code = code

    @property
    def concerns_prompt(self) -> str:
        """Why it is this prompt that the server does not take; empty if it is something else."""
        if self.status not in (400, 413, 422):
            return ""
        said = str(self).casefold()
        too_long = self._code == "context_length_exceeded" or "context length" in said
        if too_long or self.status == 413:
            return TOO_LONG
        return FILTERED if self._code == "content_filter" else ""


class _StoppedError(Exception):
    """Another thread failed, or the user has had enough."""


def in_threads(
    work: Callable[[T, threading.Event], R], items: Sequence[T], threads: int
) -> list[R]:
    """`work` done on all items, so many at once, the results in the order of the items.

    The first exception, Ctrl-C among them, is raised at once: `work` is told by the event, and
    nobody waits for what is under way, since the threads are daemons.
    """
    todo: queue.SimpleQueue[tuple[int, T]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R | BaseException]] = queue.SimpleQueue()
    stop = threading.Event()
    for numbered in enumerate(items):
        todo.put(numbered)

    def run() -> None:
        while not stop.is_set():
            try:
                at, item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((at, work(item, stop)))
            except BaseException as error:
                done.put((at, error))
                return

    for _ in range(min(threads, len(items))):
        threading.Thread(target=run, daemon=True).start()
    results: dict[int, R] = {}
    try:
        while len(results) < len(items):
            try:
                at, result = done.get(timeout=_LISTEN_S)  # a wait without end may not hear Ctrl-C
            except queue.Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            results[at] = result
    finally:
        stop.set()
    return [results[at] for at in range(len(items))]


def _answers(body: Any) -> list[Answer]:
    """The answers in the body of a response.

    Raises:
        ValueError: it is not such a body; says where.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise ValueError("no choices")
    return [_answer(choice) for choice in choices]


def _answer(choice: Any) -> Answer:
    message = choice.get("message") if isinstance(choice, dict) else None
    content = message.get("content", "") if isinstance(message, dict) else 0
    if not isinstance(content, str | None):
        raise ValueError("no text in choices.message.content")
    told = choice.get("logprobs")
    steps = told.get("content") if isinstance(told, dict) else None
    if not steps:
        return Answer(content or "")
    if not isinstance(steps, list):
        raise ValueError("choices.logprobs.content is no list")
    return Answer(content or "", tuple(_step(step) for step in steps))


def _step(step: Any) -> Step:
    own = _alternative(step)
    others = step.get("top_logprobs") or []
    if not isinstance(others, list):
        raise ValueError("top_logprobs is no list")
    found = [_alternative(other) for other in others]
    if own.token not in [other.token for other in found]:
        found.append(own)  # an answer that was drawn need not be among the likeliest
    return Step(own.token, tuple(found))


def _alternative(given: Any) -> Alternative:
    token, log_p = (given.get(k) for k in ("token", "logprob")) if isinstance(given, dict) else "??"
    if not isinstance(token, str) or not isinstance(log_p, float | int) or math.isnan(log_p):
        raise ValueError("a token without a log-probability")
    return Alternative(token, min(0.0, float(log_p)))


def _words(response: requests.Response) -> tuple[str, str]:
    """The code and the words of an error, whichever way a server puts them."""
    try:
        said = response.json()
    except (ValueError, RecursionError):
        return "", response.text
    code: object = ""
    for name in ("error", "message", "detail"):
        if isinstance(said, dict):
            code = said.get("code") or code
            said = said.get(name, said)
    return str(code), said if isinstance(said, str) else json.dumps(said)


def _short(words: object) -> str:
    line = " ".join(str(words).split())
    return line if len(line) <= 200 else f"{line[:200]}…"


def _lost(error: requests.RequestException) -> str:
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


def _retry_after(value: str) -> float:
    """Seconds that a server asks to wait, which it may say as a number or as a date."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
        seconds = (at - datetime.datetime.now(datetime.UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
