"""The client of OpenAI-compatible servers against a server that misbehaves in every way we know;
numbers by probability from local models against plain loops."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import math
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import tiny
from chat_server import KEY, Reply, completion, error, serving
from levelfield.core.errors import ModelError, UserError
from levelfield.models.chat import client as chat_client
from levelfield.models.chat.client import ChatClient, results_in_threads
from levelfield.models.chat.server import Asking, Server
from levelfield.models.contracts import ChatAnswer, Refusal
from levelfield.models.load import load
from levelfield.models.torch.choices import CausalChoices, EncoderDecoderChoices

SEVEN = [("7", {"7": 0.6, "8": 0.4})]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses worth waiting for, a key, and no proxy between us and ourselves."""
    monkeypatch.setattr(chat_client, "FIRST_WAIT_S", 0.001)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def client(
    url: str, *, seed: int | None = 0, max_tokens: int | None = 16, **patience
) -> ChatClient:
    return ChatClient(Server(url, **patience), Asking("judge", seed, max_tokens))


def ask(client: ChatClient, *prompts: str, n: int = 1, log_probabilities: bool = False):
    return client.answers(prompts, n=n, temperature=0.5, log_probabilities=log_probabilities)


def after(client: list[Reply], good: Reply):
    """Fails as often as there are failures, then does well."""
    return lambda _, number: client[number] if number < len(client) else good


def test_a_request_says_what_is_asked_for_and_nothing_that_is_not():
    with serving(lambda *_: completion("7", steps=SEVEN)) as (url, seen):
        [[answer]] = ask(client(url), "How good?", log_probabilities=True)
        ask(client(url, seed=None, max_tokens=None), "How good?")
    assert seen.paths == ["/v1/chat/completions"] * 2
    assert seen.bodies[0] == {
        "model": "judge",
        "messages": [{"role": "user", "content": "How good?"}],
        "temperature": 0.5,
        "seed": 0,
        "max_tokens": 16,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert set(seen.bodies[1]) == {"model", "messages", "temperature"}
    assert answer.text == "7"
    [step] = answer.steps
    assert step.token == "7"
    assert {a.token: pytest.approx(math.exp(a.log_p)) for a in step.alternatives} == {
        "7": 0.6,
        "8": 0.4,
    }


def test_the_drawn_token_counts_also_where_it_is_not_among_the_likeliest():
    with serving(lambda *_: completion("3", steps=[("3", {"7": 0.6})])) as (url, _):
        [[answer]] = ask(client(url), "How good?", log_probabilities=True)
    assert [a.token for a in answer.steps[0].alternatives] == ["7", "3"]


@pytest.mark.parametrize(
    "failure",
    [
        error(429, "slow down"),
        error(408),
        error(500, "oh"),
        error(503),
        error(529, "overloaded"),
        Reply(None, drop=True),
        Reply(b'{"choices": [{"mess'),
        Reply(b"<html>gateway</html>"),
        Reply(b"\xff\xfe\x00"),
        Reply([]),
        Reply({"choices": []}),
        Reply({"choices": None}),
        Reply({"choices": [{}]}),
        Reply({"choices": ["7"]}),
        Reply({"choices": [{"message": {"content": 7}}]}),
        Reply({"choices": [{"message": {"content": "7"}, "logprobs": {"content": "no"}}]}),
        Reply(
            {"choices": [{"message": {"content": "7"}, "logprobs": {"content": [{"token": 1}]}}]}
        ),
    ],
    ids=lambda reply: f"{reply.status}-{str(reply.body)[:40]}",
)
def test_what_may_pass_is_tried_again_and_counted(failure):
    with serving(after([failure, failure], completion("7"))) as (url, seen):
        chat = client(url)
        assert ask(chat, "How good?") == [[ChatAnswer("7")]]
    assert len(seen.bodies) == 3
    assert chat.costs[:4] == (3, 2, 100, 2)


def test_a_silent_server_is_asked_again_after_the_timeout():
    with serving(after([Reply({}, delay_s=1.0)], completion("7"))) as (url, _):
        chat = client(url, timeout=0.2)
        assert ask(chat, "How good?") == [[ChatAnswer("7")]]
    assert chat.costs.retries == 1


def test_too_many_failures_are_an_error_that_names_the_last():
    with serving(lambda *_: error(503, "no room")) as (url, seen):
        chat = client(url, retries=2)
        with pytest.raises(ModelError, match=r"'judge' at http://127.*503: no room \(3 tries\)$"):
            ask(chat, "How good?")
    assert len(seen.bodies) == 3


def test_retry_after_is_obeyed_by_all_threads():
    with serving(after([error(429, Retry_After="0.4")], completion("7"))) as (url, seen):
        ask(client(url, concurrency=1), "one", "two")
    assert len(seen.at) == 3
    assert seen.at[1] - seen.at[0] >= 0.4


def test_retry_after_may_be_a_date_and_nonsense_does_not_wait():
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=30)
    assert 25 < chat_client.retry_after(email.utils.format_datetime(soon, usegmt=True)) <= 30
    assert [chat_client.retry_after(x) for x in ("", "soon", "-3", "nan", "inf")] == [0.0] * 5
    assert chat_client.retry_after("1.5") == 1.5


def test_a_server_that_wants_an_hour_is_not_waited_for():
    with (
        serving(lambda *_: error(429, "quota", Retry_After="3600")) as (url, seen),
        pytest.raises(ModelError, match="asks for a wait of 3,600 s"),
    ):
        ask(client(url), "How good?")
    assert len(seen.bodies) == 1


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_a_no_is_an_error_at_once_in_one_line_with_the_servers_words(status):
    with (
        serving(lambda *_: error(status, f"not\nyou, {KEY}")) as (url, seen),
        pytest.raises(ModelError) as raised,
    ):
        ask(client(url), "How good?")
    message = str(raised.value)
    assert f"the server says {status}: not you, …" in message
    assert "\n" not in message
    assert KEY not in message
    assert len(seen.bodies) == 1
    if status == 401:
        assert "$OPENAI_API_KEY" in message


def test_a_key_that_is_repeated_where_words_are_cut_is_not_half_shown():
    long = error(400, f"{'x' * 195}{KEY}")
    with serving(lambda *_: long) as (url, _), pytest.raises(ModelError) as raised:
        ask(client(url), "How good?")
    assert KEY[:3] not in str(raised.value)


def test_an_empty_account_is_not_asked_again():
    with (
        serving(lambda *_: error(429, "pay first", "insufficient_quota")) as (url, seen),
        pytest.raises(ModelError, match="pay first"),
    ):
        ask(client(url), "How good?")
    assert len(seen.bodies) == 1


@pytest.mark.parametrize(
    "body",
    [{"error": "no"}, {"detail": "no"}, {"message": "no"}, "no", {"error": {"message": "no"}}],
)
def test_a_servers_words_are_found_wherever_it_puts_them(body):
    with (
        serving(lambda *_: Reply(body, 400)) as (url, _),
        pytest.raises(ModelError, match=r"says 400: no$"),
    ):
        ask(client(url), "How good?")


def test_one_prompt_that_is_too_long_or_filtered_does_not_stop_the_others():
    replies = {
        "long": error(400, "so long", "context_length_exceeded"),
        "longer": error(400, "This model's maximum context length is 10 tokens"),
        "huge": error(413),
        "bad": error(400, "policy", "content_filter"),
        "good": completion("7"),
    }
    with serving(lambda body, _: replies[body["messages"][0]["content"]]) as (url, _):
        answers = ask(client(url), *replies)
    long, filtered = Refusal(chat_client.TOO_LONG), Refusal(chat_client.FILTERED)
    assert answers == [long, long, long, filtered, [ChatAnswer("7")]]


def test_the_key_is_sent_if_there_is_one_and_none_is_taken_from_elsewhere(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with serving(lambda *_: completion("7")) as (url, seen):
        ask(client(url), "one")
        ask(client(url, key_variable="NOT_SET_HERE"), "two")
        ask(client(url, key_variable=""), "three")
    assert [h.get("Authorization") for h in seen.headers] == [f"Bearer {KEY}", None, None]


def test_a_key_that_no_header_can_hold_is_an_error_without_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "se\ncret")
    with (
        serving(lambda *_: completion("7")) as (url, _),
        pytest.raises(ModelError, match=r"\$OPENAI_API_KEY is not a key$") as raised,
    ):
        ask(client(url), "one")
    assert "cret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["api.example.org/v1", "ftp://x/v1", "http://", "http://x:port/v1", "http://x/v1?key=1", "x"],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UserError, match="expected an address such as"):
        Server(url)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(UserError) as raised:
        Server("http://me:hush@example.org/v1")
    assert "hush" not in str(raised.value)


def test_answers_are_in_the_order_of_prompts_however_they_arrive():
    def slow_first(body, _):
        prompt = body["messages"][0]["content"]
        return Reply(completion(prompt).body, delay_s=0.1 if prompt == "0" else 0.0)

    prompts = [str(i) for i in range(12)]
    with serving(slow_first) as (url, _):
        answers = ask(client(url, concurrency=4), *prompts)
    assert [alternatives[0].text for alternatives in answers] == prompts


def test_no_more_requests_than_allowed_are_under_way():
    with serving(lambda *_: Reply(completion("7").body, delay_s=0.05)) as (url, seen):
        ask(client(url, concurrency=3), *map(str, range(9)))
    assert seen.most == 3


def test_equal_prompts_are_sent_once():
    with serving(lambda *_: completion("7")) as (url, seen):
        assert ask(client(url), "a", "b", "a") == [[ChatAnswer("7")]] * 3
    assert len(seen.bodies) == 2


def test_several_answers_come_from_one_request_where_the_server_can():
    with serving(lambda body, _: completion(*"12345"[: body.get("n", 1)])) as (url, seen):
        [answers] = ask(client(url), "How good?", n=5)
    assert [a.text for a in answers] == list("12345")
    assert len(seen.bodies) == 1


def test_a_server_that_ignores_n_is_asked_on_with_other_seeds():
    with serving(lambda body, _: completion(str(body["seed"]))) as (url, _):
        [answers] = ask(client(url), "How good?", n=3)
    assert [a.text for a in answers] == ["0", "1", "2"]


def test_a_server_that_refuses_n_is_asked_one_by_one():
    def one_only(body, _):
        return error(400, "n must be 1") if "n" in body else completion(str(body["seed"]))

    with serving(one_only) as (url, seen):
        [answers] = ask(client(url), "How good?", n=3)
    assert [a.text for a in answers] == ["0", "1", "2"]
    assert len(seen.bodies) == 4


def test_more_answers_than_wanted_are_left():
    with serving(lambda *_: completion("1", "2", "3")) as (url, _):
        assert ask(client(url), "How good?", n=2) == [[ChatAnswer("1"), ChatAnswer("2")]]


def test_an_answer_without_content_is_an_empty_one():
    with serving(lambda *_: completion(None)) as (url, _):
        assert ask(client(url), "How good?") == [[ChatAnswer("")]]


def test_usage_of_any_shape_is_counted_where_it_is_numbers():
    body = completion("7").body
    for usage in (None, [], {"prompt_tokens": "many", "completion_tokens": None}):
        with serving(lambda *_, usage=usage: Reply({**body, "usage": usage})) as (url, _):
            chat = client(url)
            ask(chat, "How good?")
            assert chat.costs[:4] == (1, 0, 0, 0)


def test_whether_there_are_log_probabilities_is_asked_once():
    with serving(lambda *_: completion("1", steps=SEVEN)) as (url, seen):
        chat = client(url)
        assert chat.gives_log_probabilities()
        assert chat.gives_log_probabilities()
    assert len(seen.bodies) == 1
    with serving(lambda *_: completion("1")) as (url, _):
        assert not client(url).gives_log_probabilities()
    refuses = lambda body, _: error(400, "no") if "logprobs" in body else completion("1")  # noqa: E731
    with serving(refuses) as (url, _):
        assert not client(url).gives_log_probabilities()


@pytest.mark.parametrize("status", [400, 401])
def test_a_server_that_refuses_everything_is_not_one_without_log_probabilities(status):
    with (
        serving(lambda *_: error(status, "no")) as (url, _),
        pytest.raises(ModelError, match=f"says {status}: no"),
    ):
        client(url).gives_log_probabilities()


def test_the_first_error_stops_the_other_threads_and_is_raised_at_once():
    began = threading.Event()

    def work(item: int, stop: threading.Event) -> int:
        if item == 0:
            began.wait(60)
            raise ValueError("zero")
        began.set()
        stop.wait(60)
        return item

    start = time.monotonic()
    with pytest.raises(ValueError, match="zero"):
        list(results_in_threads(work, range(100), 2))
    assert time.monotonic() - start < 20


def test_ctrl_c_does_not_wait_for_the_server(tmp_path):
    program = tmp_path / "ask.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        from levelfield.models.chat.client import ChatClient
        from levelfield.models.chat.server import Asking, Server
        client = ChatClient(Server(sys.argv[1], timeout=60), Asking("judge"))
        try:
            client.answers(["a", "b"], n=1, temperature=0, log_probabilities=False)
        except KeyboardInterrupt:
            sys.exit(130)
        """)
    )
    waiting = threading.Event()

    def silent(*_):
        waiting.set()
        return Reply({}, delay_s=20)

    with serving(silent) as (url, _):
        process = subprocess.Popen([sys.executable, str(program), url], env={**os.environ})
        assert waiting.wait(60)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 130
    assert time.monotonic() - start < 10


# -- models on this machine

PROMPTS = [
    "Rate the text.\n\nThe lake froze early this year.\n\nOverall:",
    "Rate the text.\n\nThe lake froze early, and nobody skated on it.\n\nOverall:",
    "Rate it 🙂\n\nΗ λίμνη\n\nOverall:",
]
TEMPLATE = "{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}<s>"


@pytest.mark.thinned
@pytest.mark.parametrize("numbers", [range(1, 6), range(1, 11)])
@pytest.mark.parametrize("chats", [False, True], ids=["plain", "template"])
@pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)
def test_numbers_of_causal_models_are_those_of_the_plain_loop(
    causal_folders, family, chats, numbers
):
    model = AutoModelForCausalLM.from_pretrained(causal_folders[family]).eval()
    tokenizer = AutoTokenizer.from_pretrained(causal_folders[family])
    if chats:
        tokenizer.chat_template = TEMPLATE
    begin = [id for id in tokenizer("a")["input_ids"] if id == tokenizer.bos_token_id]
    no_digit = [id for word, id in tokenizer.get_vocab().items() if not ("0" <= word[0] <= "9")]

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def log_p(prompt: str, number: int) -> float:
        if chats:
            prefix, answer = ids(f"<s>{prompt}</s><s>"), ids(str(number))
        else:
            prefix = [*begin, *ids(prompt)]
            whole = [*begin, *ids(f"{prompt} {number}")]
            assert whole[: len(prefix)] == prefix
            answer = whole[len(prefix) :]
        with torch.no_grad():
            logits = model(torch.tensor([[*prefix, *answer]])).logits[0].double()
        table = logits.log_softmax(-1)[len(prefix) - 1 :]
        end = table[-1, no_digit].exp().sum().log()
        return float(sum(table[t, id] for t, id in enumerate(answer)) + end)

    plain = np.array([[log_p(prompt, number) for number in numbers] for prompt in PROMPTS])
    ours = CausalChoices(model, tokenizer)
    np.testing.assert_allclose(ours.log_p(PROMPTS, numbers), plain, atol=1e-5)
    np.testing.assert_allclose(ours.log_p(PROMPTS[:1], numbers), plain[:1], atol=1e-5)
    back = ours.log_p([*PROMPTS[::-1], PROMPTS[0]], numbers)
    np.testing.assert_allclose(back, plain[[2, 1, 0, 0]], atol=1e-5)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_numbers_of_encoder_decoders_end_with_eos_as_in_the_plain_loop(tiny_folders, family):
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_folders[family]).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_folders[family])
    before = {"t5": [0], "bart": [2, 0]}[family]

    def log_p(prompt: str, number: int) -> float:
        source = torch.tensor([tokenizer(prompt)["input_ids"]])
        answer = [
            *tokenizer(str(number), add_special_tokens=False)["input_ids"],
            tokenizer.eos_token_id,
        ]
        with torch.no_grad():
            prefix = torch.tensor([[*before, *answer[:-1]]])
            logits = model(input_ids=source, decoder_input_ids=prefix).logits[0].double()
        table = logits.log_softmax(-1)[len(before) - 1 :]
        return float(sum(table[t, id] for t, id in enumerate(answer)))

    numbers = range(1, 11)
    plain = np.array([[log_p(prompt, number) for number in numbers] for prompt in PROMPTS])
    ours = EncoderDecoderChoices(model, tokenizer)
    np.testing.assert_allclose(ours.log_p(PROMPTS, numbers), plain, atol=1e-5)


def test_a_model_that_answers_nothing_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"does not answer questions.*kind: encoder"):
        load("choices", str(tmp_path))


class Raw:
    """A server that sends what a test says, piece by piece, until the client has gone.

    Attributes:
        requests: how many have come.
    """

    def __init__(self, head: bytes, piece: bytes, pause_s: float = 0.0) -> None:
        self.requests = 0
        self._pieces = (head, piece, pause_s)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.requests += 1
            threading.Thread(target=self._send, args=(connection,), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        head, piece, pause_s = self._pieces
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(head)
            while True:
                connection.sendall(piece)
                time.sleep(pause_s)

    def close(self) -> None:
        self._socket.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@pytest.mark.parametrize("head", [HEAD, b"HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n"])
def test_an_answer_without_end_is_an_error_that_names_the_limit(monkeypatch, head):
    monkeypatch.setattr("levelfield.core.limits.ANSWER_BYTES", 100_000)
    server = Raw(head, b" " * 10_000)
    with contextlib.closing(server), pytest.raises(ModelError) as caught:
        ask(client(server.url), "How?")
    assert str(caught.value).endswith(
        "can't be asked: an answer of more than 100,000 bytes; max_tokens makes it shorter"
    )
    assert server.requests == 1


@pytest.mark.parametrize("head", [HEAD, b"HTTP/1.1 200 OK\r\nX: "])
def test_a_server_that_drips_is_given_up_when_its_time_is_over(head):
    server = Raw(head, b"x", pause_s=0.02)
    started = time.monotonic()
    with contextlib.closing(server), pytest.raises(ModelError) as caught:
        ask(client(server.url, timeout=0.2, retries=1), "How?")
    assert "no complete answer within 0.2 s, the limit set by timeout (2 tries)" in str(
        caught.value
    )
    assert time.monotonic() - started < 20
