"""Prompting through a chat server: what is sent, and what becomes of the answers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chat_server import Reply, completion, error, serving
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Answer, Decoding, Request
from levelfield.generation.techniques.chat.technique import ChatPrompting
from levelfield.generation.techniques.prompting.technique import Prompting

LAKE = Request("1", "The lake", {"sentiment": "positive"})


def answered(text: str | None, request: Request = LAKE, **options) -> Answer:
    with serving(lambda *_: completion(text)) as (url, _):
        technique = ChatPrompting(model="m", base_url=url, **options)
        (answer,) = technique.generate([request])
    return answer


class TestAnswers:
    def test_one_that_begins_with_the_prompt_is_split_there(self):
        answer = answered("\n The lake froze.\n")
        assert (answer.text, answer.continuation) == ("The lake froze.\n", " froze.\n")
        assert answer.extra == {}

    @pytest.mark.parametrize("text", ["froze.", "A lake froze.", '"The lake froze."', "the lake"])
    def test_any_other_stays_as_it_is_and_says_so(self, text: str):
        answer = answered(text)
        assert (answer.text, answer.continuation) == (text, text)
        assert answer.extra == {"begins_with_prompt": False}

    @pytest.mark.parametrize("text", ["", None])
    def test_an_empty_one_stays_empty(self, text: str | None):
        assert answered(text).text == ""
        assert answered(text, prefill=True).text == ""

    def test_an_announcement_is_removed_and_counted(self):
        answer = answered("Sure! Here is a story:\n\nThe lake froze.")
        assert answer.text == "The lake froze."
        assert answer.extra == {"preface": True}

    def test_a_role_marker_ends_it(self):
        answer = answered("The lake froze.\nUser: Go on!\nAssistant: It thawed.")
        assert answer.text == "The lake froze."
        assert answer.extra == {"stopped_at": "\nUser:"}

    def test_tokens_are_those_that_the_server_counts(self):
        answer = answered("The lake froze.")
        assert (answer.tokens, answer.forward_passes) == (2, 2)

    def test_without_a_prompt_the_answer_is_the_text(self):
        answer = answered("Once.", Request("1", "", {"topic": "sports"}))
        assert (answer.text, answer.continuation, answer.extra) == ("Once.", "Once.", {})

    def test_behind_a_turn_that_is_begun_it_is_the_continuation(self):
        answer = answered(" froze. The lake thawed.", prefill=True)
        assert answer.text == "The lake froze. The lake thawed."
        assert answered("Sure, it:\nfroze", prefill=True).text == "The lakeSure, it:\nfroze"

    def test_one_that_the_server_refuses_is_empty_and_the_others_are_there(self):
        def reply(body, _: int) -> Reply:
            if "topic" in json.dumps(body["messages"]):
                return error(400, "no", "content_filter")
            return completion("The lake froze.")

        asked = [LAKE, Request("2", "topic"), Request("3", "The lake")]
        with serving(reply) as (url, _):
            technique = ChatPrompting(model="m", base_url=url)
            answers = list(technique.generate(asked))
        assert [one.text for one in answers] == ["The lake froze.", "", "The lake froze."]
        assert answers[1].extra["refused"] == "the server's content filter refuses it"
        assert technique.costs.requests == 3

    def test_they_come_in_the_order_of_the_requests_before_the_last_is_there(self):
        def reply(body, _: int) -> Reply:
            said = body["messages"][-1]["content"]
            late = {"first": 0.2, "last": 30.0}
            slow = next((s for word, s in late.items() if word in said), 0.0)
            return Reply(completion(said).body, delay_s=slow)

        asked = [Request(id, id) for id in ("first", "second", "last")]
        with serving(reply) as (url, _):
            answers = ChatPrompting(model="m", base_url=url).generate(asked)
            assert [next(answers).id, next(answers).id] == ["first", "second"]
            answers.close()


class TestRequests:
    def sent(self, request: Request = LAKE, decoding: Decoding | None = None, seed=0, **options):
        with serving(lambda *_: completion("x")) as (url, seen):
            technique = ChatPrompting(model="m", base_url=url, **options)
            list(technique.generate([request], decoding=decoding or Decoding(), seed=seed))
        (body,) = seen.bodies
        return body

    def test_the_users_message_says_how_the_text_begins(self):
        system, user = self.sent()["messages"]
        assert system["role"] == "system"
        assert user == {
            "role": "user",
            "content": "Write a short text in fluent English with a positive sentiment. "
            "It begins with exactly these words: The lake",
        }

    def test_examples_say_so_too(self):
        messages = self.sent(shots=1)["messages"]
        assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]
        _, _, opening = messages[1]["content"].partition("exactly these words: ")
        assert messages[2]["content"].startswith(f"{opening} ")

    def test_a_turn_that_is_begun_needs_no_such_words(self):
        body = self.sent(prefill=True)
        local = Prompting()._prompts.messages(LAKE.control)
        assert body["messages"] == [*local, {"role": "assistant", "content": "The lake"}]
        assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
        assert "continue_final_message" not in self.sent(Request("1"), prefill=True)

    def test_the_decoding_is_sent_as_far_as_it_is_on(self):
        body = self.sent(decoding=Decoding(max_new_tokens=7, temperature=0.5, top_p=0.8))
        assert {name: body[name] for name in ("max_tokens", "temperature", "top_p")} == {
            "max_tokens": 7,
            "temperature": 0.5,
            "top_p": 0.8,
        }
        assert {"top_k", "repetition_penalty"}.isdisjoint(body)
        body = self.sent(decoding=Decoding(greedy=True, top_k=5, repetition_penalty=1.2))
        assert (body["temperature"], body["top_k"], body["repetition_penalty"]) == (0, 5, 1.2)

    def test_every_request_has_a_seed_of_its_own(self):
        seeds = {
            self.sent(Request(id, "The lake"), seed=seed)["seed"]
            for id in ("1", "2")
            for seed in (0, 1)
        }
        assert len(seeds) == 4
        assert all(0 <= seed < 2**31 for seed in seeds)
        assert self.sent(seed=3)["seed"] == self.sent(seed=3)["seed"]

    def test_no_more_are_under_way_than_wanted(self):
        slow = Reply(completion("x").body, delay_s=0.05)
        with serving(lambda *_: slow) as (url, seen):
            technique = ChatPrompting(model="m", base_url=url, concurrency=2)
            list(technique.generate([Request(str(n)) for n in range(6)]))
        assert seen.most == 2


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"base_url": "localhost"}, "base_url=localhost: expected an address"),
        ({"shots": 9}, "shots is 9"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, what: str):
    with pytest.raises(UserError, match=what):
        ChatPrompting(**{"model": "m", "base_url": "http://localhost:1/v1", **options})


def test_a_server_that_says_no_is_an_error_with_its_words():
    with serving(lambda *_: error(404, "no model m")) as (url, _):
        technique = ChatPrompting(model="m", base_url=url)
        with pytest.raises(ModelError, match="no model m"):
            list(technique.generate([LAKE]))


def test_given_texts_have_no_probabilities():
    technique = ChatPrompting(model="m", base_url="http://localhost:1/v1")
    with pytest.raises(UserError, match="no probabilities"):
        technique.log_probs([LAKE], [" froze."])


def test_the_signature_names_the_server_and_not_its_address():
    technique = ChatPrompting(model="m", base_url="http://localhost:1/v1", shots=2)
    assert "|model:m|server:localhost|shots:2|instructions:shipped@" in technique.signature


def test_a_server_is_asked_without_pytorch():
    code = (
        "import sys; from levelfield.generation import ChatPrompting\n"
        "ChatPrompting(model='m', base_url='http://localhost:1/v1').signature\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
