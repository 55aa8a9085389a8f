"""Techniques that are classes in files, as `docs/own-technique.md` shows them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from levelfield import generate
from levelfield.cli import levelfield
from levelfield.core.class_file import WithheldFileError, files_withheld
from levelfield.core.errors import LevelfieldError, UserError
from levelfield.generation.table import make_technique, technique_class, technique_entry
from levelfield.study.ask.systems import technique_identity
from levelfield.study.plan import TechniqueSource
from levelfield.study.plan_file import load_plan
from levelfield.study.verbs import load_study

PAGE = Path(__file__).parents[2] / "docs" / "own-technique.md"
POSITIVE = {"sentiment": "positive"}
STUDY = """
name = "Own"
seeds = [1, 2]
metrics = ["diversity"]
datasets.openings.prompts = ["The lake is", "The road is"]
controls.sentiment.sentiment = ["positive", "negative"]

[[systems]]
name = "Salad"
technique = "my_technique.py:WordSalad"
options = { length = 3 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The classes of the page, in a file that counts how often it runs."""
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    classes = "\n".join(block for block in code if "print(" not in block)
    runs = "from pathlib import Path\n\nPath(__file__).with_name('ran').touch()\n"
    path = tmp_path / "my_technique.py"
    path.write_text(classes + runs, encoding="utf-8")
    return path


def texts(file: Path, **options: Any) -> list[str]:
    words = f"{file}:WordSalad"
    result = generate(["The lake is", "A road"], words, options=options, control=POSITIVE)
    return [sample.text for sample in result.samples]


def test_a_class_in_a_file_writes_texts_with_its_options(file: Path):
    assert [len(text.split()) for text in texts(file, length="2")] == [5, 4]
    assert texts(file) == texts(file)
    with pytest.raises(UserError, match="there is no option 'size'"):
        texts(file, size="2")


def test_the_signature_names_the_file_and_changes_with_it(file: Path):
    before = make_technique(f"{file}:WordSalad").signature
    assert "|file:my_technique.py|sha256:" in before
    assert str(file.parent) not in before
    file.write_text(file.read_text("utf-8") + "\n# later", encoding="utf-8")
    assert make_technique(f"{file}:WordSalad").signature != before


def test_a_technique_of_a_file_goes_to_other_processes(file: Path):
    technique = make_technique(f"{file}:WordSalad", {"length": 2})
    copy = pickle.loads(pickle.dumps(technique))
    assert (copy.length, copy.signature) == (2, technique.signature)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("none.py:WordSalad", "No such file or directory; check the path"),
        ("my_technique.py:Soup", "there is .*my_technique.py:WordSalad"),
        ("my_technique.py", "there is .*my_technique.py:WordSalad"),
    ],
)
def test_a_missing_file_or_class_is_an_error(file: Path, words: str, complaint: str):
    with pytest.raises(UserError, match=complaint):
        technique_class(f"{file.parent}/{words}")


def test_a_class_without_the_contract_is_an_error(file: Path):
    file.write_text("class Half:\n    def generate(self, requests, **_): ...\n")
    with pytest.raises(UserError, match="Half' can't be created: it has no name"):
        make_technique(f"{file}:Half")


def test_a_technique_of_a_file_is_a_term_if_it_acts_at_the_logits(file: Path):
    pytest.importorskip("torch")
    import technique_cases as cases

    term = {"technique": f"{file}:AmplifiedReview", "attribute": "sentiment"}
    options = {"model": cases.model(), "formula": "base + 2 * more"}
    combination = make_technique("combination", {**options, "terms": {"more": term}})
    assert combination.refusal(POSITIVE) == ""
    for cls in ("WordSalad", "Review"):
        term["technique"] = f"{file}:{cls}"
        with pytest.raises(UserError, match="does not act at the logits"):
            make_technique("combination", {**options, "terms": {"more": term}})


def test_what_a_technique_raises_is_blamed_on_its_file(file: Path):
    file.write_text(file.read_text("utf-8").replace("choices(self.words", "choices(self.wards"))
    with pytest.raises(
        LevelfieldError, match=r"no attribute .wards.; it comes from .*technique\.py"
    ):
        texts(file)


def test_the_entry_of_a_class_in_a_file_comes_from_the_class(file: Path):
    pytest.importorskip("torch")
    entry = technique_entry(f"{file}:Review")
    assert (entry.mechanism, entry.summary[:9]) == ("input", 'p(x_t | "')


def test_the_command_lists_the_options_of_a_class_in_a_file(file: Path):
    shown = CliRunner().invoke(levelfield, ["techniques", f"{file}:WordSalad"])
    assert shown.exit_code == 0, shown
    assert "Words of a list for the wanted sentiment" in shown.output
    assert "length=5" in shown.output


def test_a_file_is_not_run_where_files_are_withheld(file: Path):
    with files_withheld(), pytest.raises(WithheldFileError):
        make_technique(f"{file}:WordSalad")


def test_techniques_of_the_page_write_with_a_model(file: Path):
    pytest.importorskip("torch")
    import technique_cases as cases

    def text(name: str, **options: Any) -> str:
        technique = make_technique(name, {"model": cases.model(), **options})
        result = generate(["The lake"], technique, control=POSITIVE, max_new_tokens=8, top_p=1.0)
        return result.samples[0].text

    amplified, review = f"{file}:AmplifiedReview", f"{file}:Review"
    assert text(amplified, strength=0) == text("base")
    assert text(amplified, strength=1) == text(review)
    assert len({text("base"), text(review), text(review, kind="story")}) == 3


class TestStudy:
    @pytest.fixture
    def study(self, file: Path) -> Path:
        path = file.with_name("study.toml")
        path.write_text(STUDY, encoding="utf-8")
        return path

    def test_a_study_is_read_without_running_the_file(self, study: Path):
        assert load_study(study).status().counts == {"missing": 2}
        plan = load_study(study).plan
        assert plan is not None
        assert plan.techniques["Salad"].technique == "my_technique.py:WordSalad"
        assert not study.with_name("ran").exists()

    @pytest.mark.slow
    def test_only_the_run_of_a_study_runs_the_file(self, study: Path):
        marker = study.with_name("ran")
        notes: list[str] = []
        load_study(study).run(note=notes.append)
        assert any("my_technique.py:WordSalad runs Python from a file" in note for note in notes)
        marker.unlink()
        again = load_study(study)
        assert again.status().counts == {"done": 2}
        again.audit()
        assert again.report().summary.controls
        again.export(study.with_name("texts.jsonl"), "texts")
        assert not marker.exists()

    def test_texts_depend_on_the_file_and_the_options(self, study: Path, file: Path):
        def identity(text: str = STUDY) -> list[str]:
            study.write_text(text, encoding="utf-8")
            source = load_plan(study).systems[0].source
            assert isinstance(source, TechniqueSource)
            return technique_identity(source)

        before = identity()
        assert identity(STUDY.replace("length = 3", "length = 4")) != before
        file.write_text(file.read_text("utf-8") + "\n# later", encoding="utf-8")
        assert identity() != before
        assert not study.with_name("ran").exists()

    def test_a_wrong_option_is_an_error_before_any_work(self, study: Path):
        study.write_text(STUDY.replace("length = 3", "size = 3"), encoding="utf-8")
        with pytest.raises(UserError, match="there is no option 'size'"):
            load_study(study).run()
        assert not study.with_name("study.study").exists()
