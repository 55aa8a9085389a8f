"""An engine computes what it serves, is compared with PyTorch, and is refused where it differs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield.core.errors import ModelError, UserError
from levelfield.models import converted
from levelfield.models.check import (
    COMPARISONS,
    MOST_INPUTS,
    NATS,
    UNIT,
    BothNumbers,
    Checked,
    Place,
    difference,
)
from levelfield.models.contracts import CausalLikelihood, LogLikelihoods, Target
from levelfield.models.load import forget, load
from levelfield.models.loading import (
    ENGINES,
    LOADERS,
    Engine,
    Loading,
    computation,
    engine_of,
    kinds_of,
)

TEXTS = [f"{'word ' * n}end" for n in range(20)]


class Encoder:
    """Embeds a text by its length, off by a little."""

    def __init__(self, off: float = 0.0, log: list[int] | None = None) -> None:
        self._off = off
        self._log = [] if log is None else log
        self.vocabulary_size = 7

    def token_ids(self, texts: list[str]) -> list[list[int]]:
        return [[1]] * len(texts)

    def sentences(self, texts: list[str]) -> tuple[Any, list[bool]]:
        self._log.append(len(texts))
        angles = [np.nan if not t else len(t) / 100 + self._off for t in texts]
        return np.array([[np.cos(a), np.sin(a)] for a in angles]), [False] * len(texts)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[int]]]:
    """Adds the engine `ours`, off by a number; returns the sizes of the batches of PyTorch's."""

    def add(off: float, precisions: tuple[str, ...] = ("float32",)) -> list[int]:
        log: list[int] = []
        monkeypatch.setitem(ENGINES, "ours", Engine(precisions))
        monkeypatch.setitem(LOADERS, ("encoder", "ours"), lambda *_: Encoder(off))
        monkeypatch.setitem(LOADERS, ("encoder", "torch"), lambda *_: Encoder(0, log))
        forget()
        return log

    yield add
    forget()


def test_an_engine_that_agrees_is_compared_once_on_a_few_inputs(
    engine: Callable[..., list[int]],
) -> None:
    of_torch = engine(1e-6)
    model = load("encoder", "a", Loading(engine="ours"))
    first, _ = model.sentences(TEXTS)
    np.testing.assert_allclose(first, Encoder(1e-6).sentences(TEXTS)[0])
    assert of_torch == [MOST_INPUTS]
    model.sentences(["more"])
    load("encoder", "a", Loading(engine="ours")).sentences(["and more"])
    assert of_torch == [MOST_INPUTS]
    assert model.vocabulary_size == 7
    assert model.token_ids(["a"]) == [[1]]


def test_an_engine_that_differs_is_refused_with_both_numbers_and_the_text(
    engine: Callable[..., list[int]],
) -> None:
    engine(1e-3)
    model = load("encoder", "a", Loading(engine="ours"))
    with pytest.raises(ModelError) as refused:
        model.sentences(["some text"])
    said = str(refused.value)
    assert "engine ours" in said
    assert "text 1 of the first batch ('some text')" in said
    ours, theirs = map(float, re.findall(r"\b0\.\d+", said)[:2])
    assert 9e-5 < abs(ours - theirs) < 1.1e-3
    assert "--engine torch" in said
    assert "\n" not in said
    with pytest.raises(ModelError):  # nor is the second batch
        model.sentences(["other text"])


def test_texts_without_numbers_leave_the_comparison_to_the_next_batch(
    engine: Callable[..., list[int]],
) -> None:
    of_torch = engine(1e-3)
    model = load("encoder", "a", Loading(engine="ours"))
    assert np.isnan(model.sentences([""])[0]).all()
    assert model.sentences([])[0].size == 0
    with pytest.raises(ModelError):
        model.sentences(["", "text"])
    assert of_torch == [1, 1]


def test_other_precisions_have_a_bound_on_the_mean(engine: Callable[..., list[int]]) -> None:
    engine(0.01, ("float32", "bfloat16"))
    load("encoder", "a", Loading(engine="ours", dtype="bfloat16")).sentences(TEXTS)
    engine(0.03, ("float32", "bfloat16"))
    with pytest.raises(ModelError, match=r"differ on average by 0\.03, and 0\.02 is allowed"):
        load("encoder", "a", Loading(engine="ours", dtype="bfloat16")).sentences(TEXTS)


def both(ours: object, theirs: object) -> list[BothNumbers]:
    return [BothNumbers(Place(4, 0, "text"), np.array(ours, float), np.array(theirs, float))]


def test_a_number_that_one_lacks_or_has_more_of_is_a_difference() -> None:
    assert difference(both([np.nan, -np.inf, 1], [np.nan, -np.inf, 1]), NATS, "float32") == ""
    assert "nan, and 1 by torch" in difference(both([np.nan], [1]), NATS, "float32")
    assert "text 5" in difference(both([1, 2], [1]), NATS, "float32")
    assert "has 2 numbers, and 1 by torch" in difference(both([1, 2], [1]), NATS, "bfloat16")
    assert difference(both([], []), NATS, "float32") == ""
    assert "inf" in difference(both([-np.inf], [-1]), NATS, "bfloat16")


def test_differences_up_to_the_tolerance_pass() -> None:
    for tolerance in (NATS, UNIT):
        assert not difference(both([0.9 * tolerance.each], [0]), tolerance, "float32")
        assert difference(both([1.1 * tolerance.each], [0]), tolerance, "float32")


class Causal:
    """Log-probabilities off by a number from the second token on."""

    def __init__(self, off: float) -> None:
        self._off = off

    def _of(self, text: str) -> CausalLikelihood:
        n = len(text.split())
        log_p = -np.arange(1.0, n + 1) + self._off * (np.arange(n) > 0)
        return CausalLikelihood(np.arange(n), np.arange(n), log_p, False)

    def log_likelihood(self, texts: list[str]) -> list[CausalLikelihood]:
        return [self._of(text) for text in texts]

    def log_likelihood_after(
        self, prefixes: list[str], texts: list[str]
    ) -> list[list[CausalLikelihood]]:
        return [[self._of(prefix + text) for text in texts] for prefix in prefixes]

    def unigram_bos(self) -> Any:
        return np.full(3, self._off)


class Infilling:
    def __init__(self, off: float) -> None:
        self._off = off

    def log_likelihood(self, sources: list[Any], targets: list[list[Target]]) -> LogLikelihoods:
        log_p = [
            [np.full(len(t.text), float(len(s)) + self._off * (t.text == "bad")) for t in of]
            for s, of in zip(sources, targets, strict=True)
        ]
        return LogLikelihoods(log_p, [False] * len(sources), [[False] * len(of) for of in targets])


def checked(kind: Any, make: Callable[[float], Any], off: float) -> Checked:
    return Checked(make(off), kind, "a", Loading(), lambda: make(0.0))


def test_every_method_of_a_model_is_compared_at_its_own_first_use() -> None:
    model = checked("causal", Causal, 1.0)
    model.log_likelihood(["one", "two"])  # of one token each: they agree
    with pytest.raises(ModelError, match=r"text 1 of the first batch \('a  c d'\)"):
        model.log_likelihood_after(["a ", "b "], ["", "c d"])
    with pytest.raises(ModelError, match="BOS"):
        model.unigram_bos()


def test_targets_are_compared_where_they_stand() -> None:
    sources, targets = ["s", "source"], [[Target("good", False)], []]
    model = checked("infilling", Infilling, 0.5)
    assert model.log_likelihood(sources, targets).log_p[0][0].tolist() == [1.0] * 4
    model = checked("infilling", Infilling, 0.5)
    with pytest.raises(ModelError, match=r"text 2 of .*: log-probability in nats 6\.5, and 6 by"):
        model.log_likelihood(sources, [targets[0], [Target("good", False), Target("bad", False)]])


def test_all_kinds_with_weights_are_compared() -> None:
    kinds = {kind for kind, engine in LOADERS if engine == "torch"}
    assert set(COMPARISONS) == kinds - {"causal-tokens"}


def test_a_kind_that_an_engine_does_not_serve_is_computed_by_torch(
    engine: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(0.0)
    model = object()
    monkeypatch.setitem(LOADERS, ("causal", "torch"), lambda *_: model)
    assert load("causal", "a", Loading(engine="ours")) is model
    assert load("causal", "a") is model
    assert (engine_of("encoder", "ours"), engine_of("causal", "ours")) == ("ours", "torch")
    assert kinds_of("ours") == ["encoder"]


def test_signatures_name_an_engine_only_where_it_computes(
    engine: Callable[..., list[int]],
) -> None:
    engine(0.0)
    ours, exact = Loading(engine="ours"), {"dtype": "float32"}
    assert computation(("encoder",), ours) == {**exact, "engine": "ours"}
    for kinds in (("causal",), ()):
        assert computation(kinds, ours) == exact
    low = Loading(engine="torch", dtype="bfloat16")
    assert computation(("encoder",), low) == {"dtype": "bfloat16"}


def test_a_word_that_names_no_engine_or_precision_is_refused() -> None:
    with pytest.raises(UserError, match="engine=onnx: expected auto, torch or openvino"):
        Loading(engine="onnx")
    with pytest.raises(UserError, match="engine ctranslate2 was removed; use --engine openvino"):
        Loading(engine="ctranslate2")
    with pytest.raises(UserError, match="dtype=int4: expected float32 or bfloat16"):
        Loading(dtype="int4")  # type: ignore[arg-type]


def test_a_precision_that_an_engine_lacks_is_refused_in_one_line(
    engine: Callable[..., list[int]],
) -> None:
    engine(0.0)
    with pytest.raises(
        UserError, match=r"--dtype bfloat16: engine ours, .*--engine torch or openvino has it"
    ):
        load("encoder", "a", Loading(engine="ours", dtype="bfloat16"))


def test_an_engine_that_is_not_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ENGINES, "absent", Engine(("float32",), "no_such_module"))
    monkeypatch.setitem(LOADERS, ("encoder", "absent"), "no_such_module:load")
    forget()
    with pytest.raises(ModelError, match="install levelfield with the extra absent"):
        load("encoder", "a", Loading(engine="absent"))
    forget()


class TestConversion:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))

    @staticmethod
    def write(folder: Path) -> None:
        (folder / "model.bin").write_bytes(b"12345")

    def make(self, write: Callable[[Path], object] | None = None) -> Path:
        made_by = ("ours", "1.0+cpu", "float32")
        return converted.conversion(
            "who/model", "0123456789abcdef0123", made_by, write or self.write
        )

    def test_it_is_kept_by_digest_engine_version_and_precision(self) -> None:
        folder = self.make()
        assert folder.parent == converted.copies_folder()
        assert folder.name == "model-0123456789abcdef-ours-1.0+cpu-float32"
        assert self.make(lambda _: pytest.fail("it is there")) == folder
        assert converted.copies_bytes() > 5
        assert converted.remove_copies() > 5
        assert not folder.exists()

    def test_one_that_fails_or_is_damaged_is_not_taken_for_whole(self) -> None:
        def fail(folder: Path) -> None:
            self.write(folder)
            raise ValueError("half of it")

        with pytest.raises(ValueError, match="half"):
            self.make(fail)
        folder = self.make()
        (folder / "model.bin").write_bytes(b"123")
        assert (self.make() / "model.bin").read_bytes() == b"12345"
        assert [p.name for p in converted.copies_folder().glob("[!.]*")] == [folder.name]

    def test_two_at_once_write_it_once(self) -> None:
        written: list[Path] = []
        begun = threading.Barrier(2)

        def write(folder: Path) -> None:
            written.append(folder)
            self.write(folder)

        def one() -> None:
            begun.wait()
            self.make(write)

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(written) == 1

    def test_a_folder_that_can_not_be_written_is_replaced_by_a_temporary_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "file"))  # no folder can be in it
        folder = self.make()
        assert (folder / "model.bin").read_bytes() == b"12345"
        assert tmp_path not in folder.parents
