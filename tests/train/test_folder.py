from __future__ import annotations

import pytest

from levelfield.core.errors import UserError
from levelfield.train.builder import opened

RUN = {"spec": {}, "data": ""}
TEMPORARY = ".levelfield-00000000-0123456789ab.tmp"


@pytest.mark.parametrize(
    "names",
    [
        ("notes.txt",),
        ("training/texts.jsonl",),
        ("training/checkpoint.safetensors", "training/texts.jsonl"),
        ("README.md", "training/"),
        ("README.md", f"training/{TEMPORARY}"),
    ],
)
def test_a_folder_with_files_of_others_is_refused_whatever_their_folders_are_called(
    tmp_path, names
):
    (tmp_path / "training").mkdir()
    for name in names:
        if not name.endswith("/"):
            (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match="holds no run of this kind"):
        opened(tmp_path, RUN)
    assert all((tmp_path / name).exists() for name in names)


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("training/",),
        ("training/checkpoint.safetensors", "config.json"),
        ("training/run.json", "guide.safetensors"),
        ("training/checkpoint.safetensors", f"training/{TEMPORARY}"),
        (f"training/{TEMPORARY}", TEMPORARY),
    ],
)
def test_an_empty_folder_and_one_of_a_killed_run_are_taken(tmp_path, names):
    for name in names:
        (tmp_path / "training").mkdir(exist_ok=True)
        if not name.endswith("/"):
            (tmp_path / name).write_text("")
    assert opened(tmp_path, RUN) is None
    assert (tmp_path / "training").is_dir()
