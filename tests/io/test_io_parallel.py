"""Sources and references in files of their own, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import load_samples


def test_lines_of_all_files_are_one_sample_whatever_their_suffixes(write):
    a, b = write("a.de", "Eins.\n\nDrei.\n"), write("b.de", "Ein.\nZwo.\nDrei\n")
    source = write("src.en", "One.\nTwo.\nThree.\n")
    references = [write("r1.de", "Eins.\nZwei.\nDrei.\n"), write("r2.de", "Eins\n\nDrei\n")]
    samples = load_samples([*map(Path, (a, b))], source_file=source, reference_files=references)
    assert [(s.id, s.system, s.text, s.source) for s in samples[1:4]] == [
        ("a:2", "a", "", "Two."),
        ("a:3", "a", "Drei.", "Three."),
        ("b:1", "b", "Ein.", "One."),
    ]
    assert [s.references for s in samples[:2]] == [("Eins.", "Eins"), ("Zwei.",)]


def test_files_of_other_lengths_are_named_with_both_counts(write):
    texts = write("a.txt", "Eins.\nZwei.\n")
    with pytest.raises(InputError) as caught:
        load_samples(
            texts, source_file=write("s.txt", "One.\n"), reference_files=write("r.txt", "1\n2\n3\n")
        )
    assert caught.value.problems == (
        "a.txt: 2 lines, and s.txt has 1; line n of one belongs to line n of the other",
        "a.txt: 2 lines, and r.txt has 3; line n of one belongs to line n of the other",
    )


def test_what_is_wrong_in_a_line_beside_is_named_with_its_place(write):
    texts = write("a.txt", "Eins.\nZwei.\n")
    with pytest.raises(InputError) as caught:
        load_samples(texts, reference_files=[write("r.txt", b"Eins\n\xe9\n")])
    assert "r.txt:2: not UTF-8" in caught.value.problems[0]


def test_records_have_fields_and_no_lines_beside_them(write):
    reference = write("r.txt", "Eins.\n")
    with pytest.raises(UserError, match="can't be used with --format jsonl"):
        load_samples(write("a.jsonl", ""), format="jsonl", reference_files=[reference])
    with pytest.raises(UserError, match="require files of plain text"):
        load_samples(["Eins."], reference_files=[reference])
    with pytest.raises(UserError, match="No such file"):
        load_samples(write("a.txt", "Eins.\n"), source_file="none.txt")
