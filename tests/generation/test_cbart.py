"""CBART: what holds whatever the editor, and one pass against the slow loop."""

from __future__ import annotations

import functools
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
import regex
import torch

import technique_cases as cases
import tiny_editor
from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.cbart.network import Action, editor
from levelfield.generation.techniques.cbart.refinement import EditedText, Part, refine
from levelfield.generation.techniques.cbart.technique import CBART
from levelfield.metrics.keywords import KeywordsAll
from levelfield.models.load import load

HEADS = {
    "random": (0.0, 0.0, 0.0),
    "copies": (1e4, 0.0, 0.0),
    "replaces": (0.0, 1e4, 0.0),
    "inserts": (0.0, 0.0, 1e4),
}
LETTER = r"[\p{L}\p{N}\p{M}_]"
GREEDY = Decoding(max_new_tokens=12, greedy=True)
SAMPLED = Decoding(max_new_tokens=12, top_p=0.9)
ALL = Decoding(max_new_tokens=12, top_p=1.0)

every_family = pytest.mark.parametrize("family", tiny_editor.FAMILIES)
every_head = pytest.mark.parametrize("head", HEADS)


@functools.cache
def folder(family: str = "bart", head: str = "random") -> str:
    path = Path(tempfile.mkdtemp(prefix="levelfield-editor-")) / family
    return str(tiny_editor.save(path, family, bias=HEADS[head]))


def cbart(family: str = "bart", head: str = "random", **options) -> CBART:
    return CBART(
        **{
            "model": folder(family, head),
            "ranker": cases.model(),
            "eagerness": 0.0,
            "gap_top_k": 0,
            "gap_top_p": 1.0,
            **options,
        }
    )


def answers(technique, requests, decoding=SAMPLED, seed=0):
    return list(technique.generate(requests, decoding=decoding, seed=seed))


def one(technique, prompt="The lake", keywords=("court", "culture"), decoding=SAMPLED, seed=0):
    (answer,) = answers(technique, [Request("1", prompt, {"keywords": keywords})], decoding, seed)
    return answer


def random_keywords(many: int) -> list[tuple[str, ...]]:
    """Sets of one to five keywords of one or two words, of letters from several scripts."""
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyzEAé'-4ßжω火"

    def word() -> str:
        return rng.choice("abcdeXYж火7") + "".join(rng.choices(letters, k=rng.randint(0, 7)))

    return [
        tuple(" ".join(word() for _ in range(rng.randint(1, 2))) for _ in range(rng.randint(1, 5)))
        for _ in range(many)
    ]


# -- what holds whatever the editor says


@pytest.mark.thinned
@every_family
@pytest.mark.parametrize(
    ("head", "decoding"),
    [("random", GREEDY), ("random", ALL), ("replaces", ALL), ("inserts", ALL)],
)
def test_keywords_stay_whole_and_in_their_order(family, head, decoding):
    """Hundreds of sets of keywords, most of several tokens."""
    technique = cbart(family, head, chains=1, passes=3, batch=100)
    prompts = ["", "The lake", "Once upon a time, "]
    requests = [
        Request(str(n), prompts[n % 3], {"keywords": keywords})
        for n, keywords in enumerate(random_keywords(300))
    ]
    samples, of_keyword = [], []
    for request, answer in zip(requests, answers(technique, requests, decoding), strict=True):
        start = technique._start(request, decoding.max_new_tokens)
        of_keyword.append(len(start.draft) / len(start.keywords))
        assert answer.text.startswith(request.prompt)
        rest = answer.text[len(request.prompt) :]
        for keyword in start.keywords:
            word = regex.escape(keyword)
            there = regex.search(rf"(?<!{LETTER}){word}(?!{LETTER})", rest)
            assert there, answer.text
            rest = rest[there.end() :]
        samples.append(Sample(answer.id, answer.text, control=request.control))
    assert np.mean(of_keyword) > 3  # or it would not be about keywords of several tokens
    assert KeywordsAll().score(samples[:200]).values.tolist() == [1.0] * 200


@pytest.mark.thinned
@every_family
@every_head
def test_the_tokens_of_keywords_stay_together_and_texts_at_most_double(family, head):
    technique = cbart(family, head)
    reader = technique._editor
    drafts = [
        EditedText.of(reader.tokens.ids("The lake"), reader.tokens.all_ids(keywords), reader.tokens)
        for keywords in random_keywords(100)
    ]
    names = [str(n) for n in range(len(drafts))]
    decoding = Decoding(max_new_tokens=200)
    before = drafts
    for passes in (1, 2, 3):
        after = refine(reader, drafts, names, decoding, 0, passes=passes, penalty=2.0)
        for was, start, now in zip(before, drafts, after, strict=True):
            draft = now.draft
            assert len(draft) <= 2 * len(was)
            fixed = [
                (i, p) for i, p in zip(draft.ids, draft.parts, strict=True) if p is not Part.NEW
            ]
            assert fixed == list(zip(start.ids, start.parts, strict=True))
            behind = zip(draft.parts, draft.parts[1:], strict=False)
            assert all(not (b is Part.LOCKED and a is Part.NEW) for a, b in behind)
        before = [now.draft for now in after]


@every_family
def test_a_head_that_copies_stops_after_one_pass(family):
    technique = cbart(family, "copies", chains=1)
    answer = one(technique)
    assert answer.text == "The lake court culture"
    assert (answer.tokens, answer.forward_passes) == (0, 1)
    assert dict(answer.extra) == {"passes": 1, "settled": True}


@every_family
def test_a_head_that_inserts_writes_as_many_tokens_as_it_may(family):
    """The limit counts what is new: prompt and keywords are longer than it is."""
    answer = one(cbart(family, "inserts", chains=1), "Once upon a time there was", ("a", "b", "c"))
    assert answer.tokens == 12
    assert answer.extra["settled"] is False


@pytest.mark.thinned
@every_family
@every_head
@pytest.mark.parametrize("chains", [1, 3])
def test_the_cost_is_two_rows_a_pass_whatever_the_length(family, head, chains):
    answer = one(cbart(family, head, chains=chains, passes=4), decoding=ALL)
    ranked = chains if chains > 1 else 0
    assert answer.forward_passes <= chains * 2 * 4 + ranked
    if head == "inserts" and chains == 1:
        assert answer.forward_passes == 2 * 4


@pytest.mark.thinned
@every_family
@pytest.mark.parametrize("decoding", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_batch_of_eight_gives_the_texts_of_singles(family, decoding):
    requests = [
        Request(str(n), "The lake" if n % 2 else "", {"keywords": keywords})
        for n, keywords in enumerate(random_keywords(16))
    ]
    texts = [
        [a.text for a in answers(cbart(family, batch=batch, passes=4), requests, decoding)]
        for batch in (1, 8)
    ]
    assert texts[0] == texts[1]


@every_family
def test_greedy_texts_depend_on_no_seed_and_drawn_ones_do(family):
    technique = cbart(family, "inserts")
    assert (
        one(technique, decoding=GREEDY, seed=1).text == one(technique, decoding=GREEDY, seed=2).text
    )
    drawn = {one(technique, decoding=ALL, seed=seed).text for seed in (1, 1, 2)}
    assert len(drawn) == 2


# -- one pass


@pytest.mark.thinned
@every_family
@pytest.mark.parametrize("head", ["random", "replaces", "inserts"])
@pytest.mark.parametrize("theta", [1.0, 2.0])
def test_a_pass_is_what_the_slow_loop_says(family, head, theta):
    reader = cbart(family, head)._editor
    tokens, network = reader.tokens, reader.network
    keywords = [("court", "supreme culture"), ("a",), ("night", "boat", "river bank")]
    drafts = [EditedText.of(tokens.ids("The lake"), tokens.all_ids(k), tokens) for k in keywords]
    roomy = Decoding(max_new_tokens=100, greedy=True)
    for _ in range(3):
        refined = refine(reader, drafts, ["1", "2", "3"], roomy, 0, passes=1, penalty=theta)
        for draft, now in zip(drafts, refined, strict=True):
            assert now.draft == slow_pass(network, tokens, draft, theta)
        assert any(now.draft.new for now in refined)
        drafts = [now.draft for now in refined]


def slow_pass(network, tokens, draft, theta):
    """One text alone, one mask after the other, all logits read."""
    mask = torch.ones(1, len(draft), dtype=torch.long)
    with torch.inference_mode():
        states, logits = network.encode(torch.tensor([draft.ids]), mask)
    shown, parts = [], []
    for id, part, scores in zip(draft.ids, draft.parts, logits[0], strict=True):
        may = {Part.NEW: (0, 1, 2), Part.FIRST: (0, 2), Part.LOCKED: (0,)}[part]
        action = max(may, key=lambda a: float(scores[a]))
        if action == Action.REPLACE:
            shown.append(None)
            parts.append(Part.NEW)
            continue
        if action == Action.INSERT:
            shown.append(None)
            parts.append(Part.NEW)
        shown.append(id)
        parts.append(part)
    ids = [tokens.mask if one is None else one for one in shown]
    with torch.inference_mode():
        hidden = network.body.get_decoder()(
            input_ids=torch.tensor([[tokens.decoder_start, *ids[:-1]]]),
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
        ).last_hidden_state
        if network.body.config.model_type == "t5":
            hidden = hidden * network.body.config.d_model**-0.5
            logits = network.body.lm_head(hidden)[0]
        else:
            logits = (network.body.lm_head(hidden) + network.body.final_logits_bias)[0]
    filled = list(ids)
    for place, one in enumerate(shown):
        if one is not None:
            continue
        best, best_score = -1, -float("inf")
        after_fixed = place == 0 or parts[place - 1] is not Part.NEW
        for token in range(tokens.vocabulary_size):
            score = float(logits[place, token])
            if token in shown:
                score = score / theta if score > 0 else score * theta
            if (
                tokens.never[token]
                or tokens.stops[token]
                or (after_fixed and tokens.goes_on[token])
            ):
                continue
            if score > best_score:
                best, best_score = token, score
        filled[place] = best
    return EditedText(tuple(filled), tuple(parts))


def test_of_insertions_without_room_the_likeliest_take_place():
    parts = (Part.LOCKED, Part.NEW, Part.FIRST, Part.NEW, Part.FIRST)
    draft = EditedText((0, 5, 6, 7, 2), parts)
    logits = torch.tensor([[0.0, 0, 9], [0, 0, 1], [0, 0, 3], [0, 0, 2], [0, 0, 4]])
    copy, replace, insert = Action
    assert draft.actions(logits, 9) == [copy, insert, insert, insert, insert]
    assert draft.actions(logits, 2) == [copy, replace, insert, replace, insert]
    assert draft.actions(logits, 0) == [copy, replace, copy, replace, copy]
    assert draft.opened(draft.actions(logits, 2), 99).ids == (0, 99, 99, 6, 99, 99, 2)


# -- chains


@every_family
def test_of_the_chains_the_one_of_the_lowest_perplexity_is_kept(family):
    technique = cbart(family, "inserts", chains=4, passes=3)
    request = Request("7", "The lake", {"keywords": ("court",)})
    start = technique._start(request, 12)
    names = [f"7 {chain}" for chain in range(4)]
    chains = refine(technique._editor, [start.draft] * 4, names, SAMPLED, 3, passes=3, penalty=2.0)
    texts = [technique._text(start, chain.draft) for chain in chains]
    assert len(set(texts)) == 4
    likelihoods = load("causal", cases.model()).log_likelihood(texts)
    perplexities = [np.exp(-of.log_p.mean()) for of in likelihoods]
    (answer,) = answers(technique, [request], seed=3)
    assert answer.text == texts[int(np.argmin(perplexities))]
    assert answer.extra["chain"] == int(np.argmin(perplexities))
    assert answer.forward_passes == sum(chain.rows for chain in chains) + 4


def test_greedy_decoding_writes_one_text():
    assert (
        one(cbart(chains=5), decoding=GREEDY).forward_passes
        == one(cbart(chains=1), decoding=GREEDY).forward_passes
    )


# -- texts


@pytest.mark.thinned
@every_family
@pytest.mark.parametrize("prompt", ["", "The lake", "The lake ", "  A\n tab\t", "火山 🎉", '"So,'])
def test_the_prompt_and_the_keywords_are_written_as_the_user_wrote_them(family, prompt):
    keywords = ("new  york", "É4-x", "火山", "C++")
    for head in HEADS:
        text = one(cbart(family, head), prompt, keywords, ALL).text
        assert text.startswith(prompt)
        place = len(prompt)
        for keyword in keywords:
            place = text.index(keyword, place) + len(keyword)
        if prompt[-1:] in ("", " ", "\t"):
            assert not text[len(prompt) :].startswith(" ")


def test_an_eager_editor_inserts_what_another_copies():
    assert one(cbart(chains=1, eagerness=-1e3)).tokens == 0
    assert one(cbart(chains=1, eagerness=1e3)).tokens == 12


def test_a_keyword_is_placed_once():
    assert one(cbart(head="copies"), "", ("a", "b", "a")).text == "a b"
    assert one(cbart(head="copies"), "", "king").text == "king"


def test_blanks_before_punctuation_are_dropped_but_not_those_within_keywords():
    technique = cbart(head="copies")
    tokens = technique._editor.tokens
    start = technique._start(Request("1", "So", {"keywords": ("a ,b", "c")}), 12)
    run = tokens.ids("well , yes .")
    ids = (*start.draft.ids[:-2], *run, *start.draft.ids[-2:])
    parts = (*start.draft.parts[:-2], *[Part.NEW] * len(run), *start.draft.parts[-2:])
    assert technique._text(start, EditedText(ids, parts)) == "So a ,b well, yes. c"


def test_of_a_prompt_that_is_too_long_the_end_is_read_and_all_of_it_is_kept():
    long = "word " * 2_000 + "The lake"
    answer = one(cbart(), long)
    assert answer.extra["prompt_cut"] is True
    assert answer.text.startswith(long)
    with pytest.raises(UserError, match="besides the keywords"):
        one(cbart(), decoding=Decoding(max_new_tokens=5_000))


# -- as the authors' program has it


@pytest.mark.parametrize("seed", range(10))
def test_with_copy_a_forbidden_first_choice_is_a_copy(seed):
    """The rule of the authors' program, a token at a time: the likeliest of all actions; of a
    keyword's first token a replacement becomes a copy, of its others anything does."""
    numbers = torch.Generator().manual_seed(seed)
    parts = torch.randint(0, 3, (40,), generator=numbers).tolist()
    logits = torch.randn(40, 3, generator=numbers)
    draft = EditedText(tuple(range(40)), tuple(Part(part) for part in parts))
    expected = []
    for part, scores in zip(parts, logits.tolist(), strict=True):
        action = scores.index(max(scores))
        if part == Part.LOCKED or (part == Part.FIRST and action == Action.REPLACE):
            action = Action.COPY
        expected.append(Action(action))
    assert draft.actions(logits, 40, "copy") == expected
    assert draft.actions(logits, 40) != expected


def test_any_token_may_stand_directly_behind_the_beginning_alone():
    draft = EditedText((0, 7, 8, 9, 2), (Part.LOCKED, Part.NEW, Part.NEW, Part.FIRST, Part.FIRST))
    assert [draft.follows_fixed(place) for place in range(5)] == [True, True, False, False, True]
    assert [draft.follows_fixed(place, 1) for place in range(5)] == [
        True,
        False,
        False,
        False,
        True,
    ]


@every_family
def test_gaps_have_no_brackets_quotes_or_ellipses(family):
    tokens = cbart(family)._editor.tokens
    stops = tokens.stops
    for id in range(min(tokens.vocabulary_size, len(tokens._tokenizer))):
        text = tokens._tokenizer.decode([id], clean_up_tokenization_spaces=False).strip()
        marks = [c for c in text if not (c.isalnum() or c in "\ufffd")]
        if not marks:
            assert not stops[id], text
        elif set(marks) & set('()[]{}<>"“”‘«»…*#_~`|/\\') and id not in tokens._special:
            assert stops[id], text
        elif text in set(".,;:?!-"):
            assert not stops[id], text
        elif text in ("...", "''", ",.", "'"):
            assert stops[id], text
    assert stops.any() or family == "t5"


@every_family
def test_what_stops_is_never_filled_in_unless_asked_for(family):
    reader = cbart(family)._editor
    keywords = reader.tokens.all_ids(("court", "plea"))
    drafts = [EditedText.of([], keywords, reader.tokens)] * 40
    names = [str(n) for n in range(len(drafts))]

    def written(**options) -> set[int]:
        decoding = Decoding(max_new_tokens=30, top_p=1.0, temperature=5.0)
        texts = refine(
            reader, drafts, names, decoding, 0, passes=4, penalty=1.0, eagerness=30.0, **options
        )
        return {
            id
            for text in texts
            for id, part in zip(text.draft.ids, text.draft.parts, strict=True)
            if part is Part.NEW
        }

    stopped = {int(id) for id in reader.tokens.stops.nonzero()[0]}
    assert not written() & stopped
    assert bool(written(stops=True) & stopped) == bool(stopped)


def test_the_nucleus_of_gaps_of_one_token_is_the_greedy_text():
    greedy = one(cbart(chains=1), decoding=GREEDY).text
    assert one(cbart(chains=1, gap_top_k=1), decoding=ALL).text == greedy
    assert one(cbart(chains=1, gap_top_k=0, gap_top_p=1e-9), decoding=ALL).text == greedy


# -- refusals


@pytest.mark.parametrize(
    ("control", "why"),
    [
        ({"sentiment": "positive"}, "keywords only, not sentiment"),
        ({"sentiment": "positive", "keywords": ("a",)}, "keywords only, not sentiment"),
        ({}, "needs keywords"),
        ({"keywords": ()}, "needs keywords"),
        ({"keywords": (" ", "")}, "needs keywords"),
    ],
)
def test_other_controls_are_refused(control, why):
    assert why in cbart().refusal(control)


def test_a_model_without_a_head_is_no_editor(tmp_path):
    import tiny

    bart = str(tiny.save("bart", tmp_path / "bart"))
    with pytest.raises(ModelError, match="no editing head"):
        one(cbart(model=bart))
    with pytest.raises(ModelError, match="expected an editor"):
        editor(cases.model())
