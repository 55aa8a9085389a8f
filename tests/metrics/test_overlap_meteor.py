from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.translate.meteor_score import meteor_score

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics import meteor
from levelfield.metrics.meteor import Match, METEORReferences, METEORSource, aligned, chunks
from levelfield.text import wordnet
from levelfield.text.wordnet import WordNet, read_wordnet
from levelfield.text.words import treebank_words

SYNSETS = {
    "noun": [("child", "baby", "Kid"), ("rain", "rainfall", "wet_weather"), ("dog",)],
    "verb": [("rain", "pour"), ("hurt", "harm"), ("save", "rescue")],
    "adj": [("nice(p)", "pleasant")],
    "adv": [("just", "merely")],
}
WORDS = [
    *(
        "child",
        "children",
        "baby",
        "rain",
        "rains",
        "rained",
        "pouring",
        "hurts",
        "harms",
        "savings",
    ),
    *("save", "nice", "pleasant", "Merely", "just", ".", "the", "👍", "火山"),
]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
texts = (sentences | st.text(min_size=1, max_size=20)).filter(str.strip)


def write_wordnet(folder: Path) -> Path:
    """A WordNet of a few synsets in the format of Princeton's files."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, synsets in SYNSETS.items():
        data = b"  1 WordNet 3.0 Copyright of nobody, a test's own  \n"
        offsets: dict[str, list[int]] = {}
        for words in synsets:
            for word in words:
                offsets.setdefault(word.lower().partition("(")[0], []).append(len(data))
            names = " ".join(f"{word} 0" for word in words)
            data += (
                f"{len(data):08d} 00 {part[0]} {len(words):02x} {names} 000 | a gloss\n".encode()
            )
        (folder / f"data.{part}").write_bytes(data)
        lines = [
            f"{word} {part[0]} {len(ns)} 1 @ {len(ns)} 0 {' '.join(f'{n:08d}' for n in ns)}  \n"
            for word, ns in sorted(offsets.items())
        ]
        licence = "  1 WordNet 3.0 Copyright of nobody, a test's own\n"
        (folder / f"index.{part}").write_text(licence + "".join(lines), encoding="utf-8")
        exceptions = "children child\n" if part == "noun" else ""
        (folder / f"{part}.exc").write_text(exceptions, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> WordNet:
    return read_wordnet(write_wordnet(tmp_path_factory.mktemp("wordnet")))


@pytest.fixture
def here(small: WordNet, monkeypatch: pytest.MonkeyPatch) -> WordNet:
    """The small WordNet as the one that is installed."""
    monkeypatch.setattr(meteor, "installed_wordnet", lambda: small)
    return small


class AsNLTKReads:
    """A WordNet as `meteor_score` asks for one."""

    def __init__(self, wordnet: WordNet | None) -> None:
        self._of = wordnet

    def synsets(self, word: str) -> list[SimpleNamespace]:
        names = self._of.synonyms(word) if self._of else ()
        lemmas = [SimpleNamespace(name=lambda name=name: name) for name in names]
        return [SimpleNamespace(lemmas=lambda: lemmas)]


def of(text: str, references: list[str]) -> list[Sample]:
    return [Sample("1", text, references=tuple(references))]


many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@many
@given(texts, st.lists(texts, min_size=1, max_size=3))
def test_values_are_those_of_nltk(here: WordNet, text: str, references: list[str]):
    words, reference_words = (
        treebank_words(text),
        [treebank_words(reference) for reference in references],
    )
    for synonyms, reader in (("wordnet", here), ("none", None)):
        value = METEORReferences(synonyms=synonyms).score(of(text, references)).values[0]
        expected = meteor_score(reference_words, words, wordnet=AsNLTKReads(reader))
        assert value == pytest.approx(expected, abs=1e-9)


@many
@given(sentences, sentences)
def test_alpha_beta_and_gamma_are_those_of_nltk(here: WordNet, text: str, reference: str):
    options = {"alpha": 0.6, "beta": 1.5, "gamma": 0.2}
    expected = meteor_score(
        [treebank_words(reference)], treebank_words(text), wordnet=AsNLTKReads(here), **options
    )
    value = METEORReferences(**options).score(of(text, [reference])).values[0]
    assert value == pytest.approx(expected, abs=1e-9)


def test_texts_of_2000_words_have_nltks_values(here: WordNet):
    text, reference = " ".join(WORDS * 110), " ".join(WORDS[::-1] * 110)
    expected = meteor_score(
        [treebank_words(reference)], treebank_words(text), wordnet=AsNLTKReads(here)
    )
    assert METEORReferences().score(of(text, [reference])).values[0] == pytest.approx(
        expected, abs=1e-9
    )


def test_lai_2022_looks_words_up_that_have_matched_by_their_stems_and_so_counts_them_twice(
    here: WordNet,
):
    synonyms = here.synonyms
    # `rains` and `rain` match by stem, and `rain` is a synonym of itself as a form of `rains`
    assert aligned(["rains"], ["rain"], "lai-2022", synonyms) == [Match(0, 0), Match(0, 0)]
    assert aligned(["rains"], ["rain"], "nltk", synonyms) == [Match(0, 0)]
    # the stem of `baby` is not a word
    assert aligned(["child"], ["baby"], "lai-2022", synonyms) == [Match(0, 0)]
    assert aligned(["child"], ["baby"], "nltk", synonyms) == []


def test_each_word_matches_the_last_free_one_from_the_end_and_runs_are_counted():
    matches = aligned(["a", "b", "a"], ["a", "a", "b"], "nltk", lambda _: ())
    assert matches == [Match(0, 0), Match(1, 2), Match(2, 1)]
    assert chunks(matches) == 3
    assert chunks([Match(0, 1), Match(1, 2), Match(3, 3)]) == 2
    assert chunks([]) == 0


def test_synonyms_are_the_single_words_of_all_synsets_of_all_base_forms(small: WordNet):
    assert small.synonyms("children") == {"child", "baby", "Kid"}
    assert small.synonyms("rains") == {"rain", "rainfall", "pour"}
    assert small.synonyms("nice") == {"nice", "pleasant"}
    assert small.synonyms("savings") == small.synonyms("") == small.synonyms("火山") == frozenset()
    assert small.synonyms("savings", repeat=True) == {"save", "rescue"}


def test_the_signature_says_which_synonyms_there_were(
    small: WordNet, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(meteor, "installed_wordnet", lambda: small)
    assert small.label.startswith("wordnet-3.0@")
    assert f"synonyms:{small.label}" in METEORSource().signature
    assert "synonyms:none" in METEORSource(synonyms="none").signature
    monkeypatch.setattr(meteor, "installed_wordnet", lambda: None)
    assert "synonyms:none" in METEORSource().signature
    for use in (lambda m: m.signature, lambda m: m.score([Sample("1", "a", source="b")])):
        with pytest.raises(UserError, match="WordNet is not installed"):
            use(METEORSource(synonyms="wordnet"))


def test_without_wordnet_exact_and_stem_matches_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meteor, "installed_wordnet", lambda: None)
    sample = Sample("1", "it rains", source="it rained")
    assert METEORSource().score([sample]).values[0] == pytest.approx(1 - 0.5 * (1 / 2) ** 3)


@pytest.mark.parametrize("zipped", [False, True])
def test_wordnet_is_found_among_nltks_data_as_a_folder_or_a_zip_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
):
    import nltk.data

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "none"), str(tmp_path)])
    monkeypatch.setattr(wordnet, "DEBIAN", tmp_path / "debian")
    find = wordnet.installed_wordnet.__wrapped__
    assert find() is None
    folder = write_wordnet(tmp_path / ("made" if zipped else "corpora/wordnet"))
    if zipped:
        (tmp_path / "corpora").mkdir()
        with zipfile.ZipFile(tmp_path / "corpora/wordnet.zip", "w") as packed:
            for file in folder.iterdir():
                packed.write(file, f"wordnet/{file.name}")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    path = find()
    assert path is not None
    assert path.synonyms("dog") == {"dog"}
    assert path.label == read_wordnet(folder).label
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


@pytest.mark.slow
@pytest.mark.skipif(not wordnet.DEBIAN.is_dir(), reason="Debian's wordnet-base is not installed")
def test_synonyms_are_those_of_nltks_reader(monkeypatch: pytest.MonkeyPatch):
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        """NLTK's, without the two files that Debian leaves out and synonyms do not need."""

        def open(self, file: str):
            if file == "lexnames":
                return io.StringIO("".join(f"{n:02d}\t{n}\t0\n" for n in range(45)))
            return super().open(file)

        def map_wn(self, *_: str) -> None:
            return None

    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(wordnet.DEBIAN)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = Reader(nltk.data.FileSystemPathPointer(str(wordnet.DEBIAN)), None)
    ours = read_wordnet(wordnet.DEBIAN)
    forms = sorted({form for index in ours.index.values() for form in index})[::60]
    irregular = [form for exceptions in ours.exceptions.values() for form in list(exceptions)[::20]]
    inflected = [form + ending for form in forms[::3] for ending in ("s", "ed", "ing", "er")]
    for word in [*forms, *irregular, *inflected]:
        expected = {lemma.name() for synset in reader.synsets(word) for lemma in synset.lemmas()}
        assert ours.synonyms(word) == {name for name in expected if "_" not in name}, word


@pytest.mark.usefixtures("here")
def test_no_match_is_zero_and_what_is_missing_is_undefined():
    samples = [
        Sample("1", "dog", source="火山"),
        Sample("2", " ", source="a"),
        Sample("3", "a", source=" "),
    ]
    scores = METEORSource().score(samples)
    assert scores.values[0] == 0
    assert scores.undefined == {"2": "empty text", "3": "empty source"}
    assert METEORReferences().score(samples[:1]).undefined == {"1": "no references"}


@pytest.mark.usefixtures("here")
def test_the_best_of_several_references_counts_and_all_are_parts():
    scores = METEORReferences().score(of("it rains", ["", "dog", "it rains"]))
    assert scores.parts is not None
    assert scores.parts["part"].to_list() == ["reference 2", "reference 3"]
    assert scores.parts["weight"].to_list() == [0, 1]
    assert scores.parts["score"][1] == scores.values[0]


@pytest.mark.parametrize("option", [{"alpha": 1.5}, {"beta": -1.0}, {"gamma": 2.0}])
def test_parameters_out_of_range_are_refused(option: dict[str, float]):
    with pytest.raises(UserError, match="expected a number from 0"):
        METEORSource(**option)


@pytest.mark.parametrize("variant", ["nltk", "lai-2022"])
def test_a_clause_of_chinese_is_not_a_word(variant: str):
    text, reference = "我们昨天晚上在河边散步", "我们昨天晚上在湖边散步"
    metric = METEORReferences(variant=variant, synonyms="none")
    few = "the tokenizer sees fewer than half of the words in the text"
    assert metric.score(of(text, [reference])).undefined == {"1": few}
    cut = "我们 昨天 晚上 在 河边 散步"
    assert metric.score(of(cut, [cut])).values[0] > 0.9
    before = METEORReferences(variant=variant, synonyms="none", unread="scored")
    assert before.score(of(text, [reference])).values[0] == 0
    assert "unread" not in before.signature
