"""One version everywhere, and the checks of pages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import levelfield_rating.version
import levelfield_reproductions.version
from levelfield import __version__
from tools.website.transcripts import differences, fits, pages_with_transcripts

ROOT = Path(__file__).parent.parent
PACKAGES = ("levelfield", "rating/levelfield_rating", "reproductions/levelfield_reproductions")


def test_distributions_citation_and_changelog_have_one_version():
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    heading = re.search(r"^## (\d.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert citation
    assert heading
    assert citation[1] == heading[1] == __version__
    assert levelfield_rating.version.__version__ == __version__
    assert levelfield_reproductions.version.__version__ == __version__


def test_no_message_and_no_page_installs_what_no_index_has():
    """From a release on, this test goes, and pages may say `pip install levelfield`."""
    advice = re.compile(r"pip\s+install\s+'?levelfield")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
    pages += (ROOT / "levelfield").rglob("page.md")
    modules = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in pages + modules}
    assert [name for name, text in texts.items() if advice.search(text)] == ["docs/install.md"]
    assert texts["docs/install.md"].count(f"-{__version__}-py3-none-any.whl") == 3


def test_supported_pythons_are_those_of_the_classifiers_and_of_both_workflows():
    page = (ROOT / "docs" / "support.md").read_text("utf-8")
    supported = re.findall(r"3\.\d+", re.search(r"\| 0\.2 \| (.+) \|", page)[1])
    for place in ("", "rating", "reproductions"):
        project = tomllib.loads((ROOT / place / "pyproject.toml").read_text("utf-8"))["project"]
        marks = [mark.rpartition(" ")[2] for mark in project["classifiers"]]
        assert [mark for mark in marks if re.fullmatch(r"3\.\d+", mark)] == supported
    for name in ("ci", "release"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
        assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.+)\]", text)[0]) == supported


def workflows() -> dict[str, dict]:
    yaml = pytest.importorskip("yaml")
    folder = ROOT / ".github" / "workflows"
    return {path.name: yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yml")}


def test_actions_are_pinned_by_commit_with_the_tag_beside_it():
    for path in ROOT.joinpath(".github", "workflows").glob("*.yml"):
        uses = [line for line in path.read_text("utf-8").splitlines() if " uses: " in line]
        assert uses
        for line in uses:
            assert re.search(r"@[0-9a-f]{40} # v[0-9.]+$", line), line


def test_workflows_keep_no_credentials_and_write_nothing():
    for workflow in workflows().values():
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False


def test_what_is_published_is_built_apart_from_tests_with_packages_known_by_hash():
    jobs = workflows()["release.yml"]["jobs"]
    runs = {name: [step.get("run", "") for step in job["steps"]] for name, job in jobs.items()}
    (uploader,) = [
        name
        for name, job in jobs.items()
        if any("upload-artifact" in step.get("uses", "") for step in job["steps"])
    ]
    assert not any("make" in run or "pytest" in run for run in runs[uploader])
    (install,) = [run for run in runs[uploader] if "pip install" in run]
    assert "--require-hashes" in install
    assert {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})} == {
        "publish"
    }
    assert set(jobs["publish"]["needs"]) == {"test", "try"}
    assert not any(runs["publish"][:1])
    requirements = (ROOT / "tools" / "build-requirements.txt").read_text("utf-8")
    lines = re.findall(r"^(\w+)==", requirements, re.M)
    assert lines == sorted(lines)
    assert requirements.count("--hash=sha256:") == len(lines)


def test_requirements_begin_after_known_faults():
    def requirements(place: str, *keys: str) -> list[str]:
        table = tomllib.loads((ROOT / place / "pyproject.toml").read_text("utf-8"))["project"]
        for key in keys:
            table = table[key]
        return list(table)

    assert "torch>=2.10" in requirements(".", "optional-dependencies", "models")
    assert "h11>=0.16" in requirements("rating", "dependencies")


@pytest.mark.parametrize(
    ("shown", "printed", "fit"),
    [
        ("r 0.12\n", "r 0.13\n", True),
        ("r 0.12\n", "r 0.14\n", False),
        ("r −0.12\n", "r 0.12\n", False),
        ("a\n…\nb\n", "a\nx\ny\nb\n", True),
        ("a\n…\nb\n", "a\nx\n", False),
        ("model@…|v\n", "model@53aa|v\n", True),
        ("12 texts\n", "13 texts\n", False),
    ],
)
def test_a_transcript_fits_what_is_printed(shown: str, printed: str, fit: bool):
    assert fits(shown, printed) is fit


def test_the_table_of_the_readme_is_one_of_the_transcripts():
    assert ROOT / "README.md" in pages_with_transcripts()


def test_a_page_runs_with_its_files_and_says_what_it_shows_wrongly(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        '```text title="words.txt"\none\ntwo\n```\n\n'
        "```console\n$ wc -l < words.txt\n2\n$ cat words.txt\none\nthree\n```\n",
        "utf-8",
    )
    (tmp_path / "work").mkdir()
    (wrong,) = differences(page, tmp_path / "work")
    assert (wrong.command, wrong.printed) == ("cat words.txt", "one\ntwo\n")
