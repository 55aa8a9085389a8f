"""How many texts are written at once: what `batch=auto` chooses, and that no text depends on it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import technique_cases as cases
from contract_cases import CASES
from levelfield.generation import width
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.technique import UncontrolledBase
from levelfield.generation.techniques.best_of_n.technique import BestOfN
from levelfield.generation.width import (
    TextRows,
    evenly,
    free_memory,
    logits_bytes,
    row_bytes,
    texts_at_once,
    width_of,
)

SHORT = Decoding(max_new_tokens=6)
PROMPTS = ("The lake", "", "Once upon a time there was a very old road", "I")
ASKED = [Request(str(n), PROMPTS[n % 4]) for n in range(10)]
GIB = 1 << 30


def base(**options) -> UncontrolledBase:
    return UncontrolledBase(model=cases.model(), **options)


def sizes(technique, asked=ASKED, decoding=SHORT) -> list[int]:
    return [len(batch) for batch in technique.batches(asked, decoding)]


def with_free(monkeypatch, texts: float, **options) -> UncontrolledBase:
    """The base on a machine that has memory for so many texts."""
    technique, memory = base(**options), 64 * GIB
    monkeypatch.setattr("levelfield.generation.technique.free_memory", lambda _: memory)
    config = technique.base.model.config
    read = max(len(technique._prompted(r, 6).ids) for r in ASKED)
    memory = int(texts * row_bytes(config, 4, read, 6) / width.SHARE)
    return technique


def test_a_row_takes_keys_values_logits_and_what_reads_its_prompt():
    config = SimpleNamespace(
        num_hidden_layers=3,
        hidden_size=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
    )
    keys_and_values = 2 * 3 * 2 * 2 * 4 * (5 + 7)
    reading = 5 * 8 * width.ACTIVATIONS * 4
    logits = 100 * 4 * width.LOGITS
    assert row_bytes(config, 4, 5, 7) == keys_and_values + reading + logits
    assert logits_bytes(config, 2) == 800


def test_a_pass_has_at_most_the_rows_that_fill_it():
    assert texts_at_once(TextRows(), 1, "cpu", 64 * GIB) == width.WIDTH_ON_CPU
    assert texts_at_once(TextRows(), 1, "cuda", 64 * GIB) == width.WIDTH
    assert texts_at_once(TextRows(16, 48), 1, "cpu", 64 * GIB) == width.WIDTH_ON_CPU // 16
    assert width_of("cpu") < width_of("mps") == width_of("cuda:1")
    assert width_of("auto") == width_of("cuda" if torch.cuda.is_available() else "cpu")


def test_a_batch_takes_half_of_the_free_memory_and_at_least_one_text():
    assert texts_at_once(TextRows(), 10, "cpu", 200) == 10
    assert texts_at_once(TextRows(1, 5), 10, "cpu", 200) == 2
    assert texts_at_once(TextRows(), 10, "cpu", 0) == 1
    assert texts_at_once(TextRows(1000, 1000), 1, "cpu", GIB) == 1


def test_a_worker_has_its_part_of_the_free_memory(monkeypatch):
    monkeypatch.setattr(width, "usable_memory", lambda: 8 * GIB)
    monkeypatch.setattr(width, "usable_processors", lambda: 8)
    for threads, free in ((1, GIB), (8, 8 * GIB), (16, 8 * GIB)):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        assert free_memory(torch.device("cpu")) == free


def test_a_device_that_tells_nothing_has_the_memory_of_the_processor(monkeypatch):
    monkeypatch.setattr(width, "usable_memory", lambda: GIB)
    monkeypatch.setattr(width, "model_threads", lambda: width.usable_processors())
    assert free_memory(torch.device("mps")) == GIB


def test_a_device_has_what_it_has_free_and_what_pytorch_holds_unused(monkeypatch):
    told = SimpleNamespace(
        mem_get_info=lambda _: (100, 1000),
        memory_reserved=lambda _: 70,
        memory_allocated=lambda _: 50,
    )
    monkeypatch.setattr(torch, "cuda", told)
    assert free_memory(torch.device("cuda")) == 120


def test_requests_are_shared_out_evenly_in_their_order():
    for n, most in itertools.product(range(9), range(1, 5)):
        parts = [*evenly(range(n), most)]
        assert [*itertools.chain(*parts)] == [*range(n)]
        assert len(parts) == -(-n // most)
        assert not parts or max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_number_means_that_number_as_ever():
    assert sizes(base(batch=4)) == [4, 4, 2]
    assert sizes(base(batch=50)) == [10]


def test_auto_writes_everything_at_once_if_it_fits(monkeypatch):
    assert sizes(with_free(monkeypatch, 20)) == [10]
    assert sizes(with_free(monkeypatch, 4.5)) == [3, 3, 4]
    assert sizes(with_free(monkeypatch, 0.5)) == [1] * 10
    assert sizes(base(), []) == []
    assert sizes(base(), ASKED[:1]) == [1]


def test_other_processes_are_given_what_fills_a_step_and_no_model_is_loaded():
    technique = UncontrolledBase(model="no/such-model")
    asked = [Request(str(n)) for n in range(200)]
    assert [len(batch) for batch in technique.batches(asked)] == [100, 100]


def test_a_divergence_counts_the_distributions_that_it_keeps(monkeypatch):
    technique = with_free(monkeypatch, 10.5)
    assert sizes(technique) == [10]
    assert len([*technique.batches(ASKED, SHORT, spare=2)]) > 1


def test_no_text_depends_on_what_auto_chooses(monkeypatch):
    expected = [a.text for a in base(batch=1).generate(ASKED, decoding=SHORT)]
    for texts in (0, 3, 100):
        technique = with_free(monkeypatch, texts)
        assert [a.text for a in technique.generate(ASKED, decoding=SHORT)] == expected


def failing_beyond(monkeypatch, most: int) -> list[int]:
    """A device whose memory is too small for more texts at once; returns what is written."""
    widths: list[int] = []
    write = UncontrolledBase._write

    def written(self, ready, decoding, seed):
        widths.append(len(ready))
        if len(ready) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return write(self, ready, decoding, seed)

    monkeypatch.setattr(UncontrolledBase, "_write", written)
    return widths


def test_a_device_that_runs_out_of_memory_writes_half_as_many_at_once(monkeypatch):
    expected = [a.text for a in base().generate(ASKED, decoding=SHORT)]
    widths = failing_beyond(monkeypatch, 3)
    assert [a.text for a in base().generate(ASKED, decoding=SHORT)] == expected
    assert widths == [10, 5, 2, 3, 2, 3]


@pytest.mark.parametrize(("options", "most"), [({"batch": 4}, 3), ({}, 0)])
def test_a_given_number_and_a_single_text_fail_as_ever(monkeypatch, options, most):
    failing_beyond(monkeypatch, most)
    with pytest.raises(torch.OutOfMemoryError):
        list(base(**options).generate(ASKED, decoding=SHORT))


@pytest.mark.parametrize(
    ("name", "options", "rows"),
    [
        ("base", {}, TextRows(1, 1)),
        ("dexperts", {}, TextRows(2, 3)),
        ("gedi", {}, TextRows(2, 3)),
        ("cfg", {}, TextRows(1, 2)),
        ("smc", {"particles": 5}, TextRows(5, 10)),
        ("constrained-beam", {"beams": 3}, TextRows(3, 3)),
    ],
)
def test_rows_of_all_models_of_a_technique_count(name, options, rows):
    case = CASES[name]
    technique = case.make(**options)
    assert technique._text_rows(Request("1", "The lake", case.controls[-1]), SHORT) == rows


def test_best_of_n_gives_each_request_its_own_texts_whatever_their_controls():
    """The inner technique writes requests of the same attributes together."""
    technique = BestOfN(
        model=cases.model(),
        metric="fluency.perplexity",
        metric_options=f"model={cases.model('llama')}",
        n=2,
    )
    asked = [
        replace(r, control={"sentiment": "positive"} if n % 2 else {})
        for n, r in enumerate(ASKED[:4])
    ]
    together = {a.id: a for a in technique.generate(asked, decoding=SHORT)}
    for request in asked:
        (alone,) = technique.generate([request], decoding=SHORT)
        assert (together[request.id].prompt, together[request.id].text) == (
            request.prompt,
            alone.text,
        )
