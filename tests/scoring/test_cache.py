"""The segment cache: what it is keyed by, and that what goes in comes out."""

from __future__ import annotations

import dataclasses
import errno
import math
import multiprocessing
import pickle
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from levelfield.core.metric import Level, MetricError
from levelfield.core.partitions import PARTITION
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import PARTS_SCHEMA, Scores
from levelfield.scoring.cache import (
    CacheError,
    Segment,
    SegmentCache,
    cache_path,
    clear_cache,
    sample_key,
)
from levelfield.scoring.scorer import CachedScorer, cached_scorer

FIELDS = [f.name for f in dataclasses.fields(Sample)]
BASE = Sample(
    id="1",
    text="text",
    prompt="prompt",
    source="source",
    references=("a", "b"),
    context=("turn",),
    control={"sentiment": "positive", "keywords": ("x", "y")},
    system="system",
    dataset="dataset",
    seed=1,
    ratings={"coherence": {"1": 3.0}},
    extra={"n": 1},
)
OTHER: dict[str, Any] = {
    "id": "2",
    "text": "text ",
    "prompt": "",
    "source": "Source",
    "references": ("a b",),
    "context": (),
    "control": {"sentiment": "positive", "keywords": ("y", "x")},
    "system": "",
    "dataset": "d",
    "seed": None,
    "ratings": {},
    "extra": {"n": 2},
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_key_changes_with_a_field_that_the_metric_reads_and_with_no_other(name: str) -> None:
    changed = dataclasses.replace(BASE, **{name: OTHER[name]})
    for read in FIELDS:
        same = sample_key("s", BASE, frozenset({read})) == sample_key(
            "s", changed, frozenset({read})
        )
        assert same == (read != name)
    everything = frozenset(FIELDS)
    assert sample_key("s", BASE, everything) != sample_key("s", changed, everything)
    rest = everything - {name}
    assert sample_key("s", BASE, rest) == sample_key("s", changed, rest)


def test_the_key_changes_with_the_signature() -> None:
    fields = frozenset({"text"})
    keys = {sample_key(s, BASE, fields) for s in ("m|v:1", "m|v:2", "m|v:1 ", "", "M|v:1")}
    assert len(keys) == 5


def test_what_is_moved_from_one_field_to_another_is_another_key() -> None:
    fields = frozenset({"text", "prompt"})
    keys = [
        sample_key(signature, Sample("1", text, prompt), fields)
        for signature, text, prompt in [
            ("s", "ab", "c"),
            ("s", "a", "bc"),
            ("s", "c", "ab"),
            ("s", 'a", "b', "c"),
            ("sa", "b", "c"),
        ]
    ]
    assert len(set(keys)) == len(keys)


def test_the_key_does_not_change_with_the_order_of_a_control() -> None:
    one, two = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    fields = frozenset({"control"})
    keys = {sample_key("s", Sample("1", "t", control=c), fields) for c in (one, two)}
    assert len(keys) == 1


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_texts_share_a_key_if_and_only_if_they_are_equal(a: str, b: str) -> None:
    keys = [sample_key("s", Sample("1", text), frozenset({"text"})) for text in (a, b)]
    assert (keys[0] == keys[1]) == (a == b)


numbers = st.floats(allow_nan=False)
parts = st.lists(st.tuples(st.text(st.characters(codec="utf-8")), numbers, numbers), max_size=4)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    defined = draw(st.booleans())
    return Segment(
        draw(numbers) if defined else None,
        None if defined else draw(st.text(st.characters(codec="utf-8")).filter(str.strip)),
        draw(st.booleans()),
        draw(st.none() | parts),
    )


def plain(segment: Segment) -> Any:
    """With lists for tuples, and numbers by their bits. A value of -0.0 comes back as the 0.0 that
    it equals: SQLite knows only one zero."""

    def bits(number: float | None) -> str | None:
        return None if number is None else float(number).hex()

    kept = None
    if segment.parts is not None:
        kept = [(part, bits(score), bits(weight)) for part, score, weight in segment.parts]
    value = bits(None if segment.value is None else segment.value + 0.0)
    return value, segment.undefined, segment.cut, kept


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=50,
)
@given(st.lists(segments(), max_size=30))
def test_what_is_put_comes_back_to_the_last_bit(given: list[Segment]) -> None:
    cache_path().unlink(missing_ok=True)
    put = {i.to_bytes(16, "big"): segment for i, segment in enumerate(given)}
    with closing(SegmentCache(cache_path())) as cache:
        cache.put("m", put)
    with closing(SegmentCache(cache_path())) as cache:
        got = cache.get([*put, b"absent".ljust(16)])
        assert {k: plain(s) for k, s in got.items()} == {k: plain(s) for k, s in put.items()}
        assert sum(cache.contents().segments.values()) == len(put)


@dataclass(frozen=True)
class Scripted:
    """A metric that says what it was told to say of a text, and remembers being asked."""

    script: dict[str, Segment]
    level: Level = "sample"
    with_parts: bool = True
    asked: list[str] = field(default_factory=list)

    name = "test.scripted"
    requires = frozenset({"text"})
    higher_is_better = True
    signature = "test.scripted|v:1"

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        self.asked.extend(s.id for s in samples)
        progress(len(samples))
        said = [(s.id, self.script[s.text]) for s in samples]
        rows = [(id, *part) for id, segment in said for part in segment.parts or ()]
        return Scores(
            metric=self.name,
            ids=tuple(id for id, _ in said),
            values=np.array([np.nan if s.value is None else s.value for _, s in said], float),
            undefined={id: s.undefined for id, s in said if s.undefined is not None},
            signature=self.signature,
            higher_is_better=True,
            parts=pl.DataFrame(rows, PARTS_SCHEMA, orient="row") if self.with_parts else None,
            truncated=frozenset(id for id, s in said if s.cut),
        )


def assert_equal(a: Scores, b: Scores) -> None:
    assert (a.metric, a.ids, a.undefined, a.signature) == (
        b.metric,
        b.ids,
        b.undefined,
        b.signature,
    )
    assert a.direction == b.direction
    assert a.truncated == b.truncated
    np.testing.assert_array_equal(a.values, b.values)
    assert (a.parts is None) == (b.parts is None)
    if a.parts is not None and b.parts is not None:
        assert a.parts.schema == b.parts.schema
        assert a.parts.rows() == b.parts.rows()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
    deadline=None,
)
@given(st.lists(segments(), min_size=1, max_size=5), st.data(), st.booleans())
def test_scores_from_the_cache_equal_scores_without_it(
    of_texts: list[Segment], data: st.DataObject, with_parts: bool
) -> None:
    cache_path().unlink(missing_ok=True)
    metric = Scripted({str(i): segment for i, segment in enumerate(of_texts)}, "sample", with_parts)
    texts = data.draw(st.lists(st.sampled_from(sorted(metric.script)), min_size=1, max_size=150))
    samples = [Sample(f"id {i}", text) for i, text in enumerate(texts)]
    plainly = metric.score(samples)
    with closing(SegmentCache(cache_path())) as cache:
        assert_equal(CachedScorer(cache, []).score(metric, samples), plainly)
        metric.asked.clear()
        assert_equal(CachedScorer(cache, []).score(metric, samples), plainly)
        assert metric.asked == []
        shuffled = data.draw(st.permutations(samples))
        assert_equal(CachedScorer(cache, []).score(metric, shuffled), metric.score(shuffled))


def test_equal_texts_are_scored_once_whatever_their_ids() -> None:
    metric = Scripted({"a": Segment(1.0, None, False, [])})
    samples = [Sample(str(i), "a", system=str(i)) for i in range(3 * PARTITION)]
    done: list[int] = []
    with closing(SegmentCache(cache_path())) as cache:
        scores = CachedScorer(cache, []).score(metric, samples, progress=done.append)
    assert len(metric.asked) == 1
    assert scores.values.tolist() == [1.0] * len(samples)
    assert sum(done) == len(samples)


def test_an_undefined_value_is_kept_as_null_with_its_reason_and_never_as_a_number() -> None:
    metric = Scripted(
        {"": Segment(None, "empty text", True, []), "a": Segment(0.0, None, False, [])}
    )
    with closing(SegmentCache(cache_path())) as cache:
        CachedScorer(cache, []).score(metric, [Sample("1", ""), Sample("2", "a")])
    with closing(sqlite3.connect(cache_path())) as db:
        rows = db.execute("SELECT value, typeof(value), undefined FROM segments ORDER BY value")
        assert rows.fetchall() == [(None, "null", "empty text"), (0.0, "real", None)]


def test_a_corpus_metric_goes_past_the_cache() -> None:
    metric = Scripted({"a": Segment(1.0, None, False, [])}, "corpus")
    samples = [Sample(str(i), "a") for i in range(2 * PARTITION)]
    with closing(SegmentCache(cache_path())) as cache:
        for _ in range(2):
            assert_equal(CachedScorer(cache, []).score(metric, samples), metric.score(samples))
        assert len(metric.asked) == 4 * len(samples)
        assert cache.contents().segments == {}


def test_a_failure_costs_one_partition_and_no_more() -> None:
    metric = Scripted({str(i): Segment(float(i), None, False, []) for i in range(2 * PARTITION)})
    samples = [Sample(f"s{i}", str(i)) for i in range(2 * PARTITION + 1)]  # the last is not known
    with closing(SegmentCache(cache_path())) as cache:
        with pytest.raises(MetricError):
            CachedScorer(cache, []).score(metric, samples)
        assert cache.contents().segments == {metric.name: 2 * PARTITION}


def test_what_is_put_again_takes_the_place_of_what_was_there() -> None:
    with closing(SegmentCache(cache_path())) as cache:
        cache.put("m", {b"k": Segment(1.0, None, False, None)})
        cache.put("m", {b"k": Segment(2.0, None, True, None)})
        assert cache.get([b"k"])[b"k"].value == 2.0


@pytest.mark.slow
def test_more_keys_than_a_query_can_hold_are_found() -> None:
    put = {i.to_bytes(16, "big"): Segment(float(i), None, False, None) for i in range(70_000)}
    with closing(SegmentCache(cache_path())) as cache:
        cache.put("m", put)
        assert len(cache.get(list(put))) == len(put)
        assert cache.clear() == len(put)
        assert cache.get(list(put)) == {}


def test_a_put_is_kept_whole_or_not_at_all() -> None:
    good, bad = Segment(1.0, None, False, None), Segment(object(), None, False, None)  # type: ignore[arg-type]
    with closing(SegmentCache(cache_path())) as cache:
        with pytest.raises((CacheError, sqlite3.Error)):
            cache.put("m", {b"good": good, b"bad": bad})
        assert cache.get([b"good", b"bad"]) == {}
        cache.put("m", {b"good": good})
        assert cache.get([b"good"]) == {b"good": good}


WRITERS, PUTS, SHARED = 8, 12, 20


def write_many(path: Path, writer: int) -> int:
    """What one writer of several does: values of its own and values that all of them write."""
    with closing(SegmentCache(path)) as cache:
        for n in range(PUTS):
            own = {f"{writer}/{n}".encode(): Segment(float(n), None, False, [("part", n, 1.0)])}
            common = {f"all/{n % SHARED}".encode(): Segment(0.5, None, False, None)}
            cache.put("m", own | common)
            assert len(cache.get([*own, *common])) == 2
    return writer


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_writers_at_the_same_time_lose_nothing(kind: str) -> None:
    SegmentCache(cache_path()).close()
    if kind == "threads":
        pool: Any = ThreadPoolExecutor(WRITERS)
    else:
        pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
    with pool:
        done = list(pool.map(write_many, [cache_path()] * WRITERS, range(WRITERS)))
    assert done == list(range(WRITERS))
    with closing(SegmentCache(cache_path())) as cache:
        assert cache.contents().segments == {"m": WRITERS * PUTS + min(PUTS, SHARED)}
        for writer in range(WRITERS):
            assert len(cache.get([f"{writer}/{n}".encode() for n in range(PUTS)])) == PUTS


def open_by_the_clock(folder: Path, begin: float) -> list[str]:
    """Opens a new cache every 5 ms; the complaints."""
    said = []
    for n in range(300):
        while time.time() < begin + 0.005 * n:
            pass
        try:
            SegmentCache(folder / str(n) / "c.sqlite").close()
        except CacheError as error:
            said.append(str(error))
    return said


@pytest.mark.slow
def test_processes_that_open_a_new_cache_at_the_same_time_all_can(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(time.sleep, [0.5] * 3))  # until all are there
        begin = time.time() + 0.1
        for said in pool.map(open_by_the_clock, [tmp_path] * 3, [begin] * 3):
            assert said == []


def test_a_cache_that_can_not_be_used_says_so_and_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="file/below"):
        SegmentCache(tmp_path / "file" / "below" / "segments.sqlite")
    (tmp_path / "garbage").write_bytes(b"garbage" * 1000)
    with pytest.raises(CacheError, match="garbage"):
        SegmentCache(tmp_path / "garbage")


def test_a_cache_error_can_be_sent_between_processes() -> None:
    error = pickle.loads(pickle.dumps(CacheError("cache x can't be used")))
    assert str(error) == "cache x can't be used"
    assert error.exit_code == 2


@pytest.mark.parametrize("value", [math.inf, -math.inf, 5e-324, -0.0, 1e308, 0.1 + 0.2])
def test_extreme_numbers_keep_every_bit(value: float) -> None:
    with closing(SegmentCache(cache_path())) as cache:
        cache.put("m", {b"k": Segment(value, None, False, [("p", value, value)])})
        assert plain(cache.get([b"k"])[b"k"]) == plain(
            Segment(value, None, False, [("p", value, value)])
        )


def bytes_of_a_cache(metric: Scripted, samples: Sequence[Sample]) -> bytes:
    with cached_scorer([]) as scorer:
        scorer.score(metric, samples)
    return cache_path().read_bytes()


def leave(raw: bytes) -> None:
    """Puts these bytes where the cache is, and nothing beside them."""
    for file in cache_path().parent.iterdir():
        file.unlink()
    cache_path().write_bytes(raw)


VARIED = Scripted(
    {
        str(i): Segment(
            None if i % 5 == 0 else i / 7,
            "empty text" if i % 5 == 0 else None,
            i % 3 == 0,
            [("part", i / 7, 1.0)],
        )
        for i in range(24)
    }
)


def test_whatever_bit_of_a_cache_is_flipped_no_wrong_value_is_served() -> None:
    samples = [Sample(f"s{text}", text) for text in VARIED.script]
    plainly = VARIED.score(samples)
    whole = bytes_of_a_cache(VARIED, samples)
    noted = 0
    # the header, then what is in use of the pages
    in_use = [at for at in range(len(whole)) if at < 100 or whole[at]]
    for n, at in enumerate(in_use[:: max(1, len(in_use) // 300)]):
        raw = bytearray(whole)
        raw[at] ^= 1 << n % 8
        leave(bytes(raw))
        notes: list[str] = []
        VARIED.asked.clear()
        with cached_scorer(notes) as scorer:
            assert_equal(scorer.score(VARIED, samples), plainly)
        assert len(notes) <= 2
        noted += bool(notes and VARIED.asked)
    assert noted > 50


@pytest.mark.parametrize("spoilt", [b'"ey BLOB', b'"ey\xc9BLOB'])
def test_a_damaged_schema_is_said_in_one_line(spoilt: bytes) -> None:
    whole = bytes_of_a_cache(VARIED, [Sample("1", "1")])
    leave(whole.replace(b"key BLOB", spoilt))
    with pytest.raises(CacheError, match=r"^[^\n]+ removes it$"):
        SegmentCache(cache_path())
    assert clear_cache(cache_path()) is None
    SegmentCache(cache_path()).close()


def test_damaged_rows_are_scored_anew_once_and_a_note_counts_them() -> None:
    samples = [Sample(text, text) for text in VARIED.script]
    bytes_of_a_cache(VARIED, samples)
    with closing(sqlite3.connect(cache_path())) as db:
        db.execute("UPDATE segments SET value = value + 1 WHERE value > 3")
        db.execute("UPDATE segments SET undefined = CAST(x'ff' AS TEXT) WHERE value IS NULL")
        db.commit()
    plainly = VARIED.score(samples)
    said = []
    for _ in range(2):
        notes: list[str] = []
        with cached_scorer(notes) as scorer:
            assert_equal(scorer.score(VARIED, samples), plainly)
        said.append(notes)
    assert "damaged values scored anew: 7" in said[0][0]
    assert said[1] == []


def test_of_a_version_that_kept_no_infinite_value_such_texts_alone_are_scored_anew(
    tmp_path: Path,
) -> None:
    old = {
        b"finite": Segment(0.5, None, cut=False, parts=None),
        b"infinite": Segment(None, "the value is infinite", cut=False, parts=None),
        b"other": Segment(None, "the model finds a token impossible", cut=False, parts=None),
    }
    with closing(SegmentCache(tmp_path / "cache.sqlite")) as cache:
        cache.put("m", old)
        assert set(cache.get([*old])) == {b"finite", b"other"}
        cache.put("m", {b"infinite": Segment(-math.inf, None, cut=False, parts=None)})
        assert cache.get([b"infinite"])[b"infinite"].value == -math.inf


def without_checksums(samples: Sequence[Sample]) -> None:
    """Makes a cache as versions without checksums left it."""
    bytes_of_a_cache(VARIED, samples)
    with closing(sqlite3.connect(cache_path())) as db:
        db.execute("ALTER TABLE segments DROP COLUMN checksum")
        db.execute("PRAGMA user_version = 1")
        db.execute("PRAGMA journal_mode = DELETE")


def test_values_of_a_version_without_checksums_are_adopted_once_with_a_note() -> None:
    samples = [Sample(text, text) for text in VARIED.script]
    without_checksums(samples)
    plainly = VARIED.score(samples)
    VARIED.asked.clear()
    said = []
    for _ in range(2):
        notes: list[str] = []
        with cached_scorer(notes) as scorer:
            assert_equal(scorer.score(VARIED, samples), plainly)
        said.append(notes)
    assert VARIED.asked == []
    assert "used as they are: 24" in said[0][0]
    assert said[1] == []


def test_a_damaged_cache_without_checksums_is_not_adopted() -> None:
    samples = [Sample(str(i), str(i % 24)) for i in range(24)]
    without_checksums(samples)
    raw = bytearray(cache_path().read_bytes())
    raw[4112:4114] = b"\x0f\xf0"  # where a row begins, says the page that has them
    leave(bytes(raw))
    with pytest.raises(CacheError, match=r"is damaged .*cache clear"):
        SegmentCache(cache_path())


def adopted(path: Path) -> int:
    with closing(SegmentCache(path)) as cache:
        return cache.adopted


@pytest.mark.slow
def test_of_processes_that_open_an_older_cache_at_once_one_adopts_its_values() -> None:
    without_checksums([Sample(text, text) for text in VARIED.script])
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert sorted(pool.map(adopted, [cache_path()] * 4)) == [0, 0, 0, 24]


def test_a_cache_can_be_cleared_whatever_bit_is_flipped() -> None:
    samples = [Sample(text, text) for text in VARIED.script]
    whole = bytes_of_a_cache(VARIED, samples)
    in_use = [at for at in range(len(whole)) if at < 100 or whole[at]]
    for n, at in enumerate(in_use[:: max(1, len(in_use) // 100)]):
        raw = bytearray(whole)
        raw[at] ^= 1 << n % 8
        leave(bytes(raw))
        clear_cache(cache_path())
        notes: list[str] = []
        VARIED.asked.clear()
        for _ in range(2):
            with cached_scorer(notes) as scorer:
                scorer.score(VARIED, samples)
        assert notes == []
        assert len(VARIED.asked) == len(samples)


def test_nobody_is_told_to_clear_a_cache_that_another_process_is_busy_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_checksums([Sample("1", "1")])
    monkeypatch.setattr("levelfield.scoring.cache._PATIENCE_S", 0.05)
    with closing(sqlite3.connect(cache_path(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CacheError, match="another process is busy with it") as raised:
            SegmentCache(cache_path())
    assert "clear" not in str(raised.value)


def test_a_cache_that_is_a_folder_or_in_use_is_not_cleared_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache_path().mkdir(parents=True)
    with pytest.raises(CacheError, match=r"can't be removed .*LEVELFIELD_CACHE"):
        clear_cache(cache_path())
    cache_path().rmdir()
    bytes_of_a_cache(VARIED, [Sample("1", "1")])
    monkeypatch.setattr("levelfield.scoring.cache._PATIENCE_S", 0.05)
    with closing(sqlite3.connect(cache_path(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CacheError, match="in use"):
            clear_cache(cache_path())
    assert cache_path().exists()


@pytest.mark.parametrize(
    ("code", "mend"),
    [
        (sqlite3.SQLITE_FULL, "make room on the disk of .*, or set .LEVELFIELD_CACHE"),
        (sqlite3.SQLITE_READONLY, "set .LEVELFIELD_CACHE to a folder that can be written"),
        (sqlite3.SQLITE_IOERR | 3 << 8, "set .LEVELFIELD_CACHE to a folder that can be written"),
        (sqlite3.SQLITE_CORRUPT, "`levelfield cache clear` removes it"),
        (sqlite3.SQLITE_BUSY, "another process is busy with it"),
    ],
)
def test_what_mends_a_cache_is_said_by_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, code: int, mend: str
) -> None:
    class Failing:
        in_transaction = False

        def execute(self, *_: object) -> None:
            error = sqlite3.OperationalError("no luck")
            error.sqlite_errorcode = code
            raise error

    with closing(SegmentCache(cache_path())) as cache:
        whole = cache._db
        monkeypatch.setattr(cache, "_db", Failing())
        with pytest.raises(CacheError, match=mend):
            cache.put("m", {b"k": Segment(0.5, None, cut=False, parts=None)})
        monkeypatch.setattr(cache, "_db", whole)


def test_a_full_disk_is_not_mended_by_clearing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(CacheError, match="make room") as caught:
        SegmentCache(tmp_path / "new" / "cache.sqlite")
    assert "cache clear" not in str(caught.value)
