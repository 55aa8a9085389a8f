"""Which server is asked, and what for."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass

from levelfield.core.errors import UserError


@dataclass(frozen=True)
class Server:
    """Where to ask, and how patiently.

    Attributes:
        base_url: up to and without `/chat/completions`, e.g. `http://localhost:8000/v1`.
        key_variable: the environment variable that holds the key; empty, or a variable that is
            not set: no key is sent.
        concurrency: requests sent at once.
        timeout: seconds that one request may take, its whole answer included.
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
                "base_url: it contains a name or a password; the key belongs in the environment "
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
