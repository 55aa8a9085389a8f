"""Without the extra `models`: no PyTorch, no transformers, and still most of what people ask for.

In `make test` the packages of the extra are hidden from the program. `make light` runs the same
tests with the Python of an environment that never had them, which LEVELFIELD_LIGHT_PYTHON names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OLD_STUDY = Path(__file__).parent / "golden" / "old" / "finished"
HIDDEN = ("torch", "transformers", "sentence_transformers", "tokenizers", "huggingface_hub", "ot")
HIDE = f"""
import sys
class Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {HIDDEN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
LIGHT = os.environ.get("LEVELFIELD_LIGHT_PYTHON")


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python code where no package of the extra is to be had."""
    return subprocess.run(
        [LIGHT or sys.executable, "-c", code if LIGHT else HIDE + code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LEVELFIELD_CACHE": str(folder / "cache")},
    )


def levelfield(folder: Path, *words: str, code: int = 0) -> str:
    """Returns what a command prints that exits with this code: stderr where it fails."""
    done = python(
        f"import sys; sys.argv[1:] = {words}; import levelfield.cli as c; c.main()", folder
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with texts of two systems, with references, sources and ratings by two raters."""
    lines = [
        {
            "id": f"{n}-{system}",
            "system": system,
            "text": f"The court sat{' again' * (n % 3)} on day {n}"
            + ("." if system == "b" else ""),
            "source": f"the court sat on day {n}",
            "references": [f"The court sat on day {n}."],
            "ratings": {"fluency": {"ada": 1 + n % 5, "ben": 1 + (n + len(system)) % 5}},
        }
        for n in range(12)
        for system in ("a", "b")
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


@pytest.mark.slow
def test_texts_are_scored_by_their_words_and_scores_are_correlated_with_ratings(folder: Path):
    metrics = ("bleu.references", "chrf.source", "rouge-l.references", "diversity.distinct-2")
    words = [word for metric in metrics for word in ("--metric", metric)]
    levelfield(folder, "score", "texts.jsonl", *words, "--out", "s.jsonl", "--report", "s.html")
    assert "<svg" in (folder / "s.html").read_text("utf-8")
    document = json.loads(
        levelfield(folder, "correlate", "s.jsonl", "--ratings", "texts.jsonl", "--json")
    )
    of_texts = {row["metric"] for row in document["correlations"]}
    assert of_texts == set(metrics) - {"diversity.distinct-2"}
    assert any("of groups" in note and "diversity.distinct-2" in note for note in document["notes"])
    assert "fluency" in levelfield(folder, "agreement", "texts.jsonl")


@pytest.mark.slow
def test_systems_are_compared_in_python(folder: Path):
    code = (
        "import levelfield\n"
        "texts = levelfield.load_samples('texts.jsonl')\n"
        "scores = levelfield.score(texts, metrics=['chrf.references'])\n"
        "print(levelfield.compare(texts, metrics=['chrf.references']).to_dict())"
    )
    done = python(code, folder)
    assert done.returncode == 0, done.stderr
    assert "chrf.references" in done.stdout


@pytest.mark.slow
def test_a_study_is_audited_and_reported(folder: Path):
    shutil.copytree(OLD_STUDY, folder / "study")
    levelfield(folder, "study", "audit", "study/study.toml")
    levelfield(folder, "study", "report", "study/study.toml", "--out", "report")
    assert list((folder / "report").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("score", "texts.jsonl", "--metric", "fluency.perplexity", "--model", "gpt2"),
        ("generate", "texts.jsonl", "--technique", "base", "--out", "written.jsonl"),
        ("train", "judge", "texts.jsonl", "--attribute", "a", "--out", "judge"),
    ],
    ids=lambda words: words[0],
)
def test_what_needs_a_model_says_what_to_install(words: tuple[str, ...], folder: Path):
    assert "install levelfield with the extra " in levelfield(folder, *words, code=2)


def test_a_metric_says_which_extra_it_requires_or_that_it_works_offline(folder: Path):
    pages = levelfield(folder, "metrics", "bleu") + levelfield(folder, "metrics", "cdm.momentum")
    assert pages.count("With its defaults it works offline.") == 2
    assert "it does not work offline: install levelfield with the extra offline." in pages


def test_lists_need_no_model(folder: Path):
    listed = levelfield(folder, "metrics")
    assert "rouge-1.source                 sample; needs source, text; offline" in listed
    assert "composite.coherence            sample; needs text; requires the extra off" in listed
    assert "dexperts" in levelfield(folder, "techniques")
