"""Movers against POT called with the full problem, in which nothing has been cancelled."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import tiny
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics.movers import (
    MoverReferences,
    MoverSource,
    WMDReferences,
    WMDSource,
    distance,
    transport,
)
from levelfield.metrics.wordvectors import WordVectors
from levelfield.models.loading import Loading

WORDS = ["lake", "froze", "pond", "ice", "rain", "日", "本", "🙂", "ünïcödé", "i", "."]
VECTORS = dict(zip(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 5)), strict=True))
bags = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 9), min_size=1)


def full(text: dict[str, int], other: dict[str, int]) -> float:
    """The whole problem, as the paper states it."""
    d = np.array(list(text.values())) / sum(text.values())
    d_ = np.array(list(other.values())) / sum(other.values())
    cost = cdist([VECTORS[word] for word in text], [VECTORS[word] for word in other])
    return float(ot.emd2(d, d_, cost))


@given(bags, bags)
def test_what_both_bags_share_can_stay_where_it_is(text, other):
    assert distance(text, other, VECTORS) == pytest.approx(full(text, other), abs=1e-9)
    assert distance(other, text, VECTORS) == pytest.approx(full(text, other), abs=1e-9)


@given(bags, st.integers(2, 50))
def test_bags_in_the_same_proportions_are_at_no_distance(text, times):
    assert distance(text, {word: times * n for word, n in text.items()}, VECTORS) == 0


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 100))
def test_the_least_cost_is_pots(n, m, seed):
    random = np.random.default_rng(seed)
    d, d_, cost = random.random(n) + 0.01, random.random(m) + 0.01, random.random((n, m))
    d, d_ = d / d.sum(), d_ / d_.sum()
    assert transport(d, d_, cost) == pytest.approx(float(ot.emd2(d, d_, cost)), abs=1e-9)


def write(folder: Path, name: str, *, header: bool = True, binary: bool = False) -> str:
    lines = [f"{len(WORDS)} 5\n".encode()] if header else []
    for word, vector in VECTORS.items():
        numbers = (
            vector.astype("<f4").tobytes()
            if binary
            else b" ".join(repr(float(v)).encode() for v in vector)
        )
        lines.append(word.encode() + b" " + numbers + b"\n")
    file = folder / name
    content = b"".join(lines)
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(file)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("vectors"), "glove.txt", header=False)


def bag(text: str) -> Counter[str]:
    return Counter(word for word in text.split() if word in VECTORS)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("lake", "lake"),
        ("lake", "pond"),
        ("lake lake froze", "froze lake"),
        ("日 本 🙂", "lake ünïcödé"),
        ("nothing lake unknown", "i ."),
        (" ".join(np.random.default_rng(1).choice(WORDS, 2000)), "lake froze ."),
        (
            " ".join(np.random.default_rng(2).choice(WORDS, 2000)),
            " ".join(np.random.default_rng(3).choice(WORDS[:7], 1999)),
        ),
    ],
)
def test_a_file_of_vectors_gives_pots_value_of_the_full_problem(file, text, source):
    scores = WMDSource(vectors=file).score([Sample("a", text, source=source)])
    assert scores.values[0] == pytest.approx(full(bag(text), bag(source)), abs=1e-6)
    assert scores.direction == "lower"
    assert not scores.truncated


def test_two_thousand_different_words_are_solved():
    random = np.random.default_rng(0)
    vectors = {str(n): v for n, v in enumerate(random.normal(size=(700, 8)))}
    text, other = (
        {str(n): int(random.integers(1, 6)) for n in range(a, a + 400)} for a in (0, 300)
    )
    d, d_ = (np.array(list(b.values())) / sum(b.values()) for b in (text, other))
    cost = cdist([vectors[w] for w in text], [vectors[w] for w in other])
    expected = float(ot.emd2(d, d_, cost, numItermax=10_000_000))
    assert distance(text, other, vectors) == pytest.approx(expected, abs=1e-6)


def test_gensims_value_with_vectors_of_unit_length(file):
    models = pytest.importorskip("gensim.models")
    peer = models.KeyedVectors(5)
    peer.add_vectors(WORDS, np.stack(list(VECTORS.values())).astype(np.float32))
    pairs = [("lake froze", "pond ice rain"), ("i lake .", "i pond . ."), ("日 本", "本 日 rain")]
    metric = WMDSource(vectors=file, unit_length=True)
    values = metric.score([Sample(t, t, source=s) for t, s in pairs]).values
    np.testing.assert_allclose(
        values, [peer.wmdistance(t.split(), s.split()) for t, s in pairs], atol=1e-6
    )


@pytest.mark.parametrize(
    ("name", "header", "binary"),
    [
        ("w2v.txt", True, False),
        ("glove.txt", False, False),
        ("w2v.txt.gz", True, False),
        ("w2v.bin", True, True),
        ("w2v.bin.gz", True, True),
    ],
)
def test_every_format_gives_every_vector(tmp_path, name, header, binary):
    vectors = WordVectors(Path(write(tmp_path, name, header=header, binary=binary)))
    *present, missing = vectors.of([*WORDS, "absent"])
    np.testing.assert_allclose(present, list(VECTORS.values()), atol=1e-6)
    assert missing is None


def test_words_with_blanks_line_ends_and_doubles_are_read_as_their_makers_meant(tmp_path):
    file = tmp_path / "v.txt"
    file.write_bytes(b"a 1 2 \n. . . 3 4\n\na 5 6\nlast 7 8\n\n")
    values = WordVectors(file).of(["a", ". . .", "last"])
    np.testing.assert_array_equal(values, [[1, 2], [3, 4], [7, 8]])


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "v.txt", "can't be read"),
        (b"a b\n", "v.txt", "line 1: expected"),
        (b"2 3\na 1 2 3\nb 1 2\n", "v.txt", "line 3: expected a word and 3 numbers"),
        (b"no header", "v.bin", "line 1: expected"),
        (b"1 3\na abc", "v.bin", "ends within a vector"),
        (b"9 2\na 1 2\nb 1 2\n", "v.txt", "the file ends after 2 of 9 words"),
        (b"no gzip", "v.gz", "can't be read"),
    ],
)
def test_a_file_that_holds_no_vectors_is_refused_with_the_place(tmp_path, content, name, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        WordVectors(tmp_path / name)


def test_what_is_not_a_number_is_an_error_that_names_its_word(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"a 1 2\nb x 2\n")
    with pytest.raises(UserError, match="the word 'b' is not 2 numbers"):
        WordVectors(tmp_path / "v.txt").of(["b"])


def test_case_stop_words_and_references_are_as_asked_for(file, tmp_path):
    stop = tmp_path / "stop.txt"
    stop.write_text("i\n.\n", encoding="utf-8")
    score = lambda sample, **options: WMDSource(vectors=file, **options).score([sample]).values[0]  # noqa: E731
    sample = Sample("a", "I LAKE .", source="lake rain", references=("ice", " ", "lake", "absent"))
    assert score(sample) == pytest.approx(full(bag("i lake ."), bag("lake rain")))
    assert score(sample, stop_words=str(stop)) == pytest.approx(full(bag("lake"), bag("lake rain")))
    assert score(sample, lowercase=False) == pytest.approx(full(bag("."), bag("lake rain")))
    scores = WMDReferences(vectors=file).score([sample])
    assert scores.values[0] == pytest.approx(full(bag("i lake ."), bag("lake")))
    assert scores.parts is not None
    assert scores.parts["part"].to_list() == ["reference 1", "reference 3"]


@pytest.mark.parametrize(
    ("metric", "sample", "reason"),
    [
        (WMDSource, Sample("a", " ", source="lake"), "empty text"),
        (WMDSource, Sample("a", "lake", source=""), "empty source"),
        (WMDSource, Sample("a", "absent", source="lake"), "no word that has a vector"),
        (WMDSource, Sample("a", "lake", source="absent"), "no word that has a vector: source"),
        (WMDReferences, Sample("a", "lake"), "no references"),
    ],
)
def test_what_has_no_distance_has_a_reason(file, metric, sample, reason):
    other = Sample("b", "lake", source="ice", references=("ice",))
    scores = metric(vectors=file).score([sample, other])
    assert scores.undefined == {"a": reason}
    assert scores.values[1] > 0


def test_the_signature_names_what_could_change_a_value_and_a_metric_travels(file):
    metrics = [
        WMDSource(vectors=file),
        WMDSource(vectors=file, unit_length=True),
        WMDSource(vectors=file, lowercase=False),
        WMDSource(vectors=file, stop_words=file),
        WMDReferences(vectors=file),
    ]
    assert len({metric.signature for metric in metrics}) == 5
    travelled: Any = pickle.loads(pickle.dumps(metrics[1]))
    assert travelled == metrics[1]


def test_without_a_file_words_are_what_the_model_reads_of_them(tiny_folders):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = str(tiny_folders["t5"])
    table = AutoModelForSeq2SeqLM.from_pretrained(folder).get_input_embeddings().weight
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def vector(word: str) -> np.ndarray:
        ids = tokenizer(word, add_special_tokens=False).input_ids
        return table[ids].mean(dim=0).detach().double().numpy()

    scores = WMDSource(model=folder).score([Sample("a", "the lake", source="rain")])
    rain = vector("rain")
    expected = np.mean([np.linalg.norm(vector(word) - rain) for word in ("the", "lake")])
    assert scores.values[0] == pytest.approx(expected, abs=1e-6)
    assert "vectors:input-embeddings(t5@" in scores.signature


def test_the_mover_score_is_one_less_pots_cost_of_the_tokens_states(tiny_folders):
    from levelfield.models.load import load

    folder = str(tiny_folders["bart"])
    texts = [*tiny.texts()[:3], "a", "日本語", "🙂", "words " * 900]
    pairs = [(a, b) for a in texts for b in texts[:3]]
    scores = MoverSource(model=folder).score(
        [Sample(str(n), a, source=b) for n, (a, b) in enumerate(pairs)]
    )
    states = load("states", folder, layer=2).of(texts)
    inside = {t: s.states[~s.special].astype(float) for t, s in zip(texts, states, strict=True)}
    expected = []
    for a, b in pairs:
        x, y = inside[a], inside[b]
        uniform = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
        expected.append(1 - float(ot.emd2(*uniform, cdist(x, y), numItermax=1_000_000)))
    np.testing.assert_allclose(scores.values, expected, atol=1e-5)
    assert scores.values[0] == 1
    assert scores.truncated == {str(n) for n, (a, _) in enumerate(pairs) if a == texts[-1]}


def test_the_mover_score_takes_the_best_reference_and_idf_weights(tiny_folders, tmp_path):
    folder = str(tiny_folders["bart"])
    text, *references = tiny.texts()[:3]
    each = [
        MoverSource(model=folder).score([Sample("a", text, source=r)]).values[0] for r in references
    ]
    sample = Sample("a", text, source=references[0], references=("", *references))
    assert MoverReferences(model=folder).score([sample]).values[0] == pytest.approx(max(each))
    idf = tmp_path / "idf.txt"
    idf.write_text("\n".join(t.replace("\n", " ") for t in tiny.texts()[:9]), encoding="utf-8")
    weighted = MoverSource(model=folder, idf=str(idf)).score([sample]).values[0]
    assert weighted != pytest.approx(each[0], abs=1e-6)


def test_vectors_of_one_precision_are_not_taken_for_those_of_another(tiny_folders):
    folder = str(tiny_folders["t5"])
    sample = [Sample("a", "the lake", source="rain")]
    exact = WMDSource(model=folder).score(sample).values[0]
    assert (
        WMDSource(model=folder, loading=Loading(dtype="bfloat16")).score(sample).values[0] != exact
    )
    assert WMDSource(model=folder).score(sample).values[0] == exact
