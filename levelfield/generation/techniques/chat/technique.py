"""Prompting of a model on a server that speaks OpenAI's chat-completions protocol."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from levelfield.core.continuation import without_preface
from levelfield.core.options import option
from levelfield.generation.contract import (
    Answer,
    AnsweringTechnique,
    Decoding,
    Request,
    until,
)
from levelfield.generation.techniques._prompts.prompts import Message, PromptOptions, message
from levelfield.models.chat.client import ChatClient
from levelfield.models.chat.server import Asking, Server
from levelfield.models.contracts import Completion, Costs, Refusal


@dataclass(frozen=True, kw_only=True)
class ChatPrompting(PromptOptions, AnsweringTechnique):
    """Describes the text in words, to a model on a server.

    The messages are those of `prompting`. Not every server accepts the beginning of the assistant's
    turn, so the user's message says with which words the text begins. An answer that begins with
    them is split there. For any other answer, the text is the answer itself, not the prompt
    followed by the answer: it is unknown whether the model continued or replaced the prompt.
    `extra` of such an answer has `begins_with_prompt` False, and the continuation is the whole
    text.

    A first line such as `Sure! Here is a story:` is removed (`extra`: `preface`), and so is what
    follows a stop string (`stopped_at`). A request that the server refuses (its content filter, a
    prompt that is too long) has an empty text (`refused`).

    Every request is sent with its own seed. Whether equal seeds give equal texts depends on the
    server. Options of the decoding that the protocol lacks (`top_k`, `repetition_penalty`) are sent
    unless they are off; a server that does not know them refuses. Tokens are those that the server
    counts, including a repeated opening.

    Raises:
        UserError: no address of a server, a file that can't be read, or more shots than examples.
        ModelError: at the first text, the server refuses, or fails more often than `retries`.
    """

    name: ClassVar[str] = "chat"
    _without_log_probs: ClassVar[str] = ": a server gives no probabilities of given texts"
    model: str = option(help="Name of the model on the server.", metavar="NAME")
    base_url: str = option(
        help="Address of the server, without `/chat/completions`, such as "
        "http://localhost:8000/v1.",
        metavar="URL",
    )
    prefill: bool = option(
        False,
        "Begin the assistant's turn with the prompt, for servers that continue it where "
        "`continue_final_message` is set, as vLLM's does; every text then begins with its prompt.",
    )
    key_variable: str = option(
        "OPENAI_API_KEY",
        "Environment variable with the key of the server; the key is sent if it is set.",
        metavar="NAME",
    )
    concurrency: int = option(8, "Number of requests in progress at once.", least=1)
    timeout: float = option(
        60.0, "Seconds that one request may take, including its whole answer.", above=0, most=86_400
    )
    retries: int = option(5, "Number of times that a failed request is sent again.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._server

    @property
    def choices(self) -> Mapping[str, str]:
        """Every choice that could change a text, as far as the server reveals it."""
        return {
            "model": self.model,
            "server": self._server.host,
            **self._prompts.choices,
            "prefill": str(self.prefill).lower(),
        }

    @property
    def costs(self) -> Costs:
        """What this process has asked the server so far."""
        return _client(self._server, self.model).costs

    def _answers(
        self, requests: Sequence[Request], decoding: Decoding, seed: int
    ) -> Iterator[Answer]:
        client = _client(self._server, self.model)
        chats = [self._chat(request, decoding, seed) for request in requests]
        for request, completion in zip(requests, client.completions(chats), strict=True):
            yield self._answer(request, completion)

    def messages(self, request: Request) -> list[Message]:
        """Returns what is sent to the server for a request."""
        if not self.prefill:
            return self._prompts.messages(request.control, request.prompt)
        begun = [message("assistant", request.prompt)] if request.prompt else []
        return [*self._prompts.messages(request.control), *begun]

    def _chat(self, request: Request, decoding: Decoding, seed: int) -> dict[str, Any]:
        digest = hashlib.sha256(f"{seed} {request.id}".encode("utf-8", "surrogatepass")).digest()
        begun = {"add_generation_prompt": False, "continue_final_message": True}
        return {
            "messages": self.messages(request),
            "max_tokens": decoding.max_new_tokens,
            "temperature": 0.0 if decoding.greedy else decoding.temperature,
            "top_p": decoding.top_p,
            "seed": int.from_bytes(digest[:4]) >> 1,
            **({"top_k": decoding.top_k} if decoding.top_k else {}),
            **(
                {"repetition_penalty": decoding.repetition_penalty}
                if decoding.repetition_penalty != 1
                else {}
            ),
            **(begun if self.prefill and request.prompt else {}),
        }

    def _answer(self, request: Request, completion: Completion | Refusal) -> Answer:
        extra: dict[str, Any] = {}
        if isinstance(completion, Refusal):
            extra["refused"] = completion.reason
            completion = Completion("", 0, 0.0)
        written = completion.text
        begun = request.prompt if self.prefill else ""
        if not begun and (bare := without_preface(written)) != written:
            written, extra["preface"] = bare, True
        written, stop = until(written, self._prompts.instructions.stop)
        if stop:
            extra["stopped_at"] = stop
        if begun:
            written = begun + written if written.strip() else ""
        elif (bare := written.lstrip()).startswith(request.prompt):
            written = bare
        if not written.startswith(request.prompt):
            extra["begins_with_prompt"] = False
        return Answer.of(
            request,
            written.removeprefix(request.prompt),
            text=written,
            tokens=completion.tokens,
            seconds=completion.seconds,
            forward_passes=completion.tokens,
            extra=extra,
        )

    @property
    def _server(self) -> Server:
        return Server(
            self.base_url, self.key_variable, self.concurrency, self.timeout, self.retries
        )


@functools.lru_cache(maxsize=16)
def _client(server: Server, model: str) -> ChatClient:
    return ChatClient(server, Asking(model))
