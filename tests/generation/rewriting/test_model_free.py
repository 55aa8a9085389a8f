"""Baselines that rewrite without a model: a copy and rules."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import levelfield
from levelfield.core.errors import InputError, UserError
from levelfield.generation.techniques.rules.formality import STYLES, _words, rewrite

MIXED = """
I i I'm i'd we've don't can't ain't let's it's who's soooo omg lol haha :) <3 Anna Will Berlin the a
lake is was like been you he they . ! ?? ... … , (so) "ok" 5 3.14 7pm gr8 @bob #tag don’t well-known
https://x.org/u?im=1 me@x.org u.s. e.g. example.com/u 火山 🎉 été viii www
"""
WORDS = (
    *_words("formal"),
    *_words("informal"),
    *MIXED.split(),
)
sentences = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
every_style = pytest.mark.parametrize("style", STYLES)
KEPT = {"Anna", "Will", "Berlin", "3.14", "7pm", "gr8", "@bob", "#tag", "me@x.org"} | {
    "https://x.org/u?im=1", "example.com/u", "火山", "🎉", "été", "well-known", "viii", "www",
}  # fmt: skip


@every_style
@given(text=sentences | st.text(max_size=60))
def test_rules_change_nothing_in_their_own_output(style, text):
    once = rewrite(text, style)
    assert rewrite(once, style) == once


@every_style
@given(text=sentences)
def test_names_numbers_and_addresses_stay(style, text):
    words = [word for word in text.split() if word in KEPT]
    left = iter([word.strip(".?!,…") for word in rewrite(text, style).split()])
    # what begins a sentence may have a capital
    assert all(any(new in (word, word.capitalize()) for new in left) for word in words)


@every_style
@given(text=st.text(st.characters(exclude_categories=("Cs",), min_codepoint=128), max_size=40))
def test_other_scripts_and_emoji_stay(style, text):
    assert rewrite(text, style) == text


@every_style
@pytest.mark.parametrize("text", ["", " ", "🎉", "...", "42", "火山。", "https://x.org", "?!"])
def test_what_has_no_words_stays(style, text):
    assert rewrite(text, style) == text


@pytest.mark.parametrize(
    ("informal", "formal"),
    [
        ("hey!! i dont know if u can come...", "Hello. I do not know if you can come."),
        ("omg that was sooo good lol :)", "That was so good."),
        ("can't you see??", "Can you not see?"),
        ("i've been there, it's been great", "I have been there, it has been great."),
        ("who's there", "Who is there?"),
        ("are you coming", "Are you coming?"),
        ("im at 5 Main St.", "I am at 5 Main St."),
        ("thx for the pic, e.g. the lake", "Thank you for the picture, e.g. the lake."),
        ("My friend Will ain't here", "My friend Will is not here."),
    ],
)
def test_sentences_made_formal(informal, formal):
    assert rewrite(informal, "formal") == formal


@pytest.mark.parametrize(
    ("formal", "informal"),
    [
        ("I do not know whether you are coming.", "i dunno whether ur coming"),
        ("It is late. Yes, it is.", "it's late. yeah, it is"),
        ("Berlin is large; I cannot see it all.", "Berlin is large; i can't see it all"),
        ("Mr. Smith resides in Leeds.", "Mr. Smith lives in Leeds"),
        ("Could I purchase it in May?", "could i buy it in May?"),
    ],
)
def test_sentences_made_informal(formal, informal):
    assert rewrite(formal, "informal") == informal


def test_no_rule_of_a_word_list_undoes_another():
    for style in STYLES:
        words = _words(style)
        for key, new in words.items():
            assert key == key.lower()
            assert rewrite(f"so {new} so", style) == rewrite(f"so {key} so", style), key


def test_rules_refuse_what_they_have_no_rules_for():
    with pytest.raises(InputError, match="rules for formality only, and sentiment is requested"):
        levelfield.generate([{"source": "hi"}], "rules", control={"sentiment": "positive"})
    with pytest.raises(InputError, match='formality is "posh"; expected formal or informal'):
        levelfield.generate([{"source": "hi"}], "rules", control={"formality": "posh"})


# -- sources on their way from a file to a file


def test_a_copy_is_the_source_and_the_file_scores_as_it_is(tmp_path):
    sources = tmp_path / "sources.jsonl"
    record = {"id": "a", "source": "hi there", "references": ["Hello."], "text": "ignored"}
    sources.write_text(json.dumps(record | {"control": {"formality": "formal"}}) + "\n")
    out = tmp_path / "copy.jsonl"
    (sample,) = levelfield.generate(sources, "copy", out=out).samples
    assert (sample.text, sample.source, sample.references) == ("hi there", "hi there", ("Hello.",))
    (read,) = levelfield.load_samples(out)
    fields = ("id", "text", "prompt", "source", "references", "control", "system", "seed")
    assert [getattr(read, f) for f in fields] == [getattr(sample, f) for f in fields]
    (summary,) = levelfield.score(out, "bleu.source").to_dict()["metrics"]
    assert summary["groups"][0]["mean"] == pytest.approx(100)


def test_a_run_goes_on_where_it_was_interrupted_unless_its_sources_changed(tmp_path):
    out = tmp_path / "texts.jsonl"
    records = [{"id": str(n), "source": f"hi {n}", "references": ["Hello."]} for n in range(3)]
    levelfield.generate(records, "copy", out=out)
    whole = out.read_text()
    out.write_text("".join(whole.splitlines(keepends=True)[:2]))
    result = levelfield.generate(records, "copy", out=out)
    assert result.kept == 2
    assert [s.text for s in result.samples] == ["hi 0", "hi 1", "hi 2"]
    for change in ({"source": "bye"}, {"references": ["Bye."]}):
        with pytest.raises(UserError, match='"0" differs in source, references or control'):
            levelfield.generate([records[0] | change, *records[1:]], "copy", out=out)


def test_strings_and_lines_of_text_are_sources_to_techniques_that_rewrite(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("hi u\nbye\n")
    for form in (["hi u", "bye"], lines):
        result = levelfield.generate(form, "rules", control={"formality": "formal"})
        assert [s.text for s in result.samples] == ["Hello you.", "Bye."]
        assert [s.source for s in result.samples] == ["hi u", "bye"]


def test_requests_of_the_wrong_kind_are_refused_with_their_place(tmp_path):
    file = tmp_path / "requests.jsonl"
    file.write_text('{"source": "hi"}\n')
    with pytest.raises(InputError, match=r"requests.jsonl:1: there is a source to rewrite, and"):
        levelfield.generate(file, "base", model="no/such-model")
    file.write_text('{"prompt": "hi"}\n')
    with pytest.raises(InputError, match=r"jsonl:1: source: missing; .*--map source=COLUMN"):
        levelfield.generate(file, "copy")
    with pytest.raises(InputError, match="the source is empty"):
        levelfield.generate([{"source": ""}], "copy")
