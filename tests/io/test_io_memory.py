"""Memory of scores, ratings and samples that meta-evaluation holds, a record."""

import gc
import json
import tracemalloc

import pytest

from levelfield.agree.sources import read_samples
from levelfield.core.errors import InputError
from levelfield.io.ratings import load_ratings
from levelfield.io.scores import load_scores

N = 3000
"""Records: enough that the partition that is read at a time does not count."""


def held(read):
    """Most bytes that are held while a result is read, and the result.

    The least of three times: threads that other tests have left may hold memory for a while.
    """
    read()  # what is imported and cached
    sizes = []
    for _ in range(3):
        gc.collect()
        tracemalloc.start()
        try:
            result = read()
            sizes.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(sizes), result


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.slow
def test_ratings_of_which_only_ids_are_known_keep_no_samples(tmp_path):
    rows = ({"id": str(i), "aspect": "overall", "rater": "ann", "value": i % 5} for i in range(N))
    path = write(tmp_path / "ratings.jsonl", rows)
    size, rated = held(lambda: load_ratings(path))
    assert len(rated.ratings) == N
    assert not rated.samples
    assert size / N < 900


@pytest.mark.slow
def test_metrics_share_the_ids_of_their_values(tmp_path):
    records = (
        {"id": f"text {i}", "metric": metric, "value": i / 7, "signature": f"{metric}|v:1"}
        for i in range(N)
        for metric in ("a", "b", "c")
    )
    path = write(tmp_path / "scores.jsonl", records)
    size, columns = held(lambda: load_scores(path))
    assert [len(column.values) for column in columns] == [N] * 3
    assert size / N < 450
    first, *others = (list(column.values) for column in columns)
    assert all(a is b for other in others for a, b in zip(first, other, strict=True))


@pytest.mark.slow
def test_of_samples_in_files_what_no_correlation_needs_is_left_out(tmp_path):
    records = (
        {
            "id": str(i), "text": f"text {i}", "prompt": f"prompt {i // 5}", "system": "a",
            "references": ["a long reference " * 20], "comment": "a long comment " * 20,
        }
        for i in range(N)
    )  # fmt: skip
    path = write(tmp_path / "texts.jsonl", records)
    size, samples = held(lambda: read_samples(path))
    assert (samples["7"].text, samples["7"].prompt) == ("text 7", "prompt 1")
    assert (samples["7"].references, dict(samples["7"].extra)) == ((), {})
    assert samples["5"].prompt is samples["7"].prompt
    assert size / N < 500


def test_the_place_of_the_first_of_two_values_is_known_without_places_of_all(tmp_path):
    scores = [{"id": str(i), "metric": "a", "value": 1, "signature": "a|v:1"} for i in (1, 2, 2)]
    with pytest.raises(
        InputError, match=r"scores.jsonl:3: .*already has a value at .*scores.jsonl:2;"
    ):
        load_scores(write(tmp_path / "scores.jsonl", scores))
    of_ann = [{"id": str(i), "aspect": "overall", "rater": "ann", "value": i} for i in (1, 2)]
    files = [
        write(tmp_path / "one.jsonl", of_ann),
        write(tmp_path / "two.jsonl", [{**of_ann[0], "id": "3"}, of_ann[1]]),
    ]
    with pytest.raises(
        InputError, match=r"two.jsonl:2: ann already rated overall of id .*one.jsonl:2;"
    ):
        load_ratings(files)
