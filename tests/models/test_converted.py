"""The converted copy is whole or not there, whatever happens while it is made."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path, PureWindowsPath

import pytest

import light_conversion
from levelfield.core.errors import ModelError
from levelfield.models import converted as module
from levelfield.models.converted import WEIGHTS, converted

pytest.importorskip("gguf")

SHA256 = "0123456789abcdef" * 4
FILES = {"config.json", "tokenizer.json", "tokenizer_config.json", "checksums.json"}
PATH = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
CODE = """
import sys, time
from pathlib import Path
from levelfield.models import converted as module, gguf_conversion
import light_conversion
def slow(gguf, folder, texts):
    print("weights", flush=True)
    time.sleep(float(sys.argv[3]))
    light_conversion.write_weights(gguf, folder, texts=texts)
gguf_conversion.write_texts, gguf_conversion.write_weights = light_conversion.write_texts, slow
print(module.converted(Path(sys.argv[1]), sys.argv[2], weights=True), flush=True)
"""


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Converts without `transformers`, into files of a few bytes."""
    for name in ("write_texts", "write_weights"):
        stub = getattr(light_conversion, name)
        monkeypatch.setattr(module.gguf_conversion, name, stub)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LEVELFIELD_CACHE", str(folder))
    return folder / "models"


@pytest.fixture
def passing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, with a new one of this process in it at the next need."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    module._passing.cache_clear()
    yield folder
    module._passing.cache_clear()


def start(file: Path, pause: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(file), SHA256, str(pause)],
        env=os.environ | PATH,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def leftovers(cache: Path) -> list[str]:
    return [p.name for p in cache.rglob("*.tmp")]


def test_tokenizer_and_configuration_come_without_the_weights(file, cache):
    folder = converted(file, SHA256, weights=False)
    assert folder == cache / f"tiny-0123456789ab-{module.VERSION}"
    assert {p.name for p in folder.iterdir()} == FILES


@pytest.mark.usefixtures("light")
def test_weights_come_into_the_same_folder(file):
    before = converted(file, SHA256, weights=False)
    folder = converted(file, SHA256, weights=True)
    assert folder == before
    assert {p.name for p in folder.iterdir()} == {*FILES, WEIGHTS}
    checksums = json.loads((folder / "checksums.json").read_text())
    written = {*FILES, WEIGHTS} - {"checksums.json"}
    assert checksums == {n: zlib.crc32((folder / n).read_bytes()) for n in written}


@pytest.mark.usefixtures("light")
def test_a_second_call_reads_and_writes_nothing(file, monkeypatch):
    folder = converted(file, SHA256, weights=True)
    monkeypatch.setattr(module, "_write_files", None)
    assert converted(file, SHA256, weights=True) == folder


def test_every_weight_of_the_copy_is_that_of_the_file_bit_for_bit(file):
    import gguf_values
    import tiny_gguf

    copy = converted(file, SHA256, weights=True) / WEIGHTS
    heads = {"heads": tiny_gguf.HEADS, "key_heads": tiny_gguf.KEY_HEADS}
    assert gguf_values.differences(file, copy, **heads) == []


def test_only_a_conversion_needs_the_package_that_reads_the_file(file, monkeypatch):
    folder = converted(file, SHA256, weights=True)
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert converted(file, SHA256, weights=True) == folder
    (folder / WEIGHTS).unlink()
    with pytest.raises(ModelError) as caught:
        converted(file, SHA256, weights=True)
    assert str(caught.value) == (
        "the package gguf, which reads tiny.gguf, is not installed: "
        "install levelfield with the extra offline"
    )


@pytest.mark.parametrize("kept", [0, 3, 4, 10, 200, -100])
def test_a_file_that_is_cut_is_one_line_with_its_name_and_no_copy(file, tmp_path, cache, kept):
    path = tmp_path / "cut.gguf"
    path.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"^model 'cut\.gguf' can't be loaded: .") as caught:
        converted(path, SHA256, weights=True)
    assert "\n" not in str(caught.value)
    (folder,) = (p for p in cache.iterdir() if p.is_dir())
    assert list(folder.iterdir()) == []


def test_what_is_not_a_causal_model_of_transformers_is_refused(tmp_path):
    import tiny_gguf

    other = tmp_path / "other.gguf"
    other.write_bytes(b"no GGUF " * 100)
    for path, problem in (
        (other, "GGUF magic invalid"),
        (tiny_gguf.write(tmp_path / "a.gguf", architecture="rwkv7"), "rwkv7 is not supported"),
        (tiny_gguf.write(tmp_path / "b.gguf", pre="poro-chat"), "by the rule 'poro-chat', which"),
    ):
        with pytest.raises(ModelError, match=f"^model '{path.name}' can't be loaded: .*{problem}"):
            converted(path, SHA256, weights=False)


def test_a_file_without_some_weights_is_refused(tmp_path):
    import tiny_gguf

    path = tiny_gguf.write(tmp_path / "a.gguf", architecture="qwen2", without="blk.1.attn_k.bias")
    with pytest.raises(
        ModelError, match="it lacks the weights model.layers.1.self_attn.k_proj".replace(".", r"\.")
    ):
        converted(path, SHA256, weights=True)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("smollm", [" the", "2", "4", "the"]),
        ("qwen2", [" the", "2", "4", "the"]),
        ("gpt-2", [" the", "24", "the"]),
        ("llama-bpe", [" the", "24", "the"]),
    ],
)
def test_texts_are_split_by_the_rule_of_the_file(tmp_path, architecture, pre, words):
    import tiny_gguf
    from levelfield.models.files import load_tokenizer
    from levelfield.models.resolve import resolve

    path = tiny_gguf.write(tmp_path / "a.gguf", architecture=architecture, pre=pre)
    splits = load_tokenizer(resolve(str(path))).backend_tokenizer.pre_tokenizer
    pieces = [" the24the"[slice(*span)] for _, span in splits.pre_tokenize_str(" the24the")]
    assert pieces == words


def test_a_file_is_a_model_by_its_path(tmp_path, file):
    pytest.importorskip("torch")
    import tiny_gguf
    from levelfield.models.load import load
    from levelfield.models.resolve import resolve

    path = tiny_gguf.write(tmp_path / "tiny-qwen2.gguf", architecture="qwen2", pre="qwen2")
    resolved = resolve(str(path))
    assert (resolved.kind, resolved.model_type) == ("causal", "qwen2")
    assert resolved.label.startswith("tiny-qwen2.gguf@")
    assert resolved.revision != resolve(str(file)).revision
    (likelihood,) = load("causal", str(path)).log_likelihood(["the the"])
    assert (likelihood.log_p < 0).all()


@pytest.mark.usefixtures("light")
def test_another_file_or_version_has_a_folder_of_its_own(file, monkeypatch):
    first = converted(file, SHA256, weights=False)
    assert converted(file, "f" * 64, weights=False) != first
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    assert converted(file, SHA256, weights=False) != first


@pytest.mark.usefixtures("light")
def test_names_and_messages_suit_windows(file, monkeypatch):
    name = converted(file, SHA256, weights=False).name
    assert PureWindowsPath(name).parts == (name,)
    assert not set(name) & set('<>:"/\\|?*')
    assert not name.endswith((".", " "))
    folder = PureWindowsPath(r"C:\Users\Zoë\AppData\Local\levelfield\models") / name
    assert str(folder) in str(module._no_room(folder, file, "1 MB are free"))
    # Windows lacks flock, and the files of a dead process are not cleared
    monkeypatch.setattr("levelfield.io.writing.fcntl", None)
    assert (converted(file, "f" * 64, weights=True) / WEIGHTS).is_file()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("name", [*sorted(FILES), WEIGHTS])
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_file_that_is_missing_cut_or_changed_is_made_again(file, name, damage):
    folder = converted(file, SHA256, weights=True)
    whole = {p.name: p.read_bytes() for p in folder.iterdir()}
    damage(folder / name)
    assert converted(file, SHA256, weights=True) == folder
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == whole


@pytest.mark.usefixtures("light")
def test_a_copy_that_was_removed_while_the_process_runs_is_made_again(file, cache):
    folder = converted(file, SHA256, weights=False)
    shutil.rmtree(cache)
    assert converted(file, SHA256, weights=True) == folder
    assert {p.name for p in folder.iterdir()} == {*FILES, WEIGHTS}


def test_of_two_processes_one_converts_and_the_other_waits_for_it(file, cache):
    first, second = start(file, 0.05), start(file, 0.05)
    outputs = [process.communicate(timeout=60)[0].splitlines() for process in (first, second)]
    assert first.returncode == second.returncode == 0
    assert sorted(map(len, outputs)) == [1, 2]  # one says nothing but the folder
    assert outputs[0][-1] == outputs[1][-1]
    assert leftovers(cache) == []


@pytest.mark.kill
@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_ends_in_the_middle_leaves_nothing_that_the_next_one_minds(file, cache, by):
    process = start(file, 30)
    assert process.stdout.readline()  # it writes weights
    process.send_signal(by)
    process.communicate(timeout=60)
    (folder,) = (p for p in cache.iterdir() if p.is_dir())
    assert not (folder / WEIGHTS).exists()
    if by == signal.SIGINT:
        assert leftovers(cache) == []
    began = time.monotonic()
    assert {p.name for p in converted(file, SHA256, weights=True).iterdir()} == {*FILES, WEIGHTS}
    assert time.monotonic() - began < 10  # the lock went with the process
    assert leftovers(cache) == []


@pytest.mark.usefixtures("light")
def test_a_full_disk_is_an_error_before_a_byte_is_written_and_names_size_and_place(
    file, monkeypatch
):
    folder = converted(file, SHA256, weights=False)
    size = module.bytes_of_weights(file)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, size - 1))
    with pytest.raises(ModelError) as caught:
        converted(file, SHA256, weights=True)
    message = str(caught.value)
    assert message.count("\n") == 0
    assert str(folder) in message
    assert "0 MB are free" in message
    assert "$LEVELFIELD_CACHE" in message
    assert {p.name for p in folder.iterdir()} == FILES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, size))
    assert (converted(file, SHA256, weights=True) / WEIGHTS).is_file()


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("weights", [False, True])
def test_a_disk_that_fills_up_while_it_is_written_leaves_nothing_half_written(
    file, cache, monkeypatch, number, weights
):
    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    if weights:
        converted(file, SHA256, weights=False)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match=f"{os.strerror(number)}; make room there") as caught:
        converted(file, SHA256, weights=weights)
    assert "\n" not in str(caught.value)
    (folder,) = (p for p in cache.iterdir() if p.is_dir())
    assert {p.name for p in folder.iterdir()} == (FILES if weights else set())


def unwritable(folder: Path) -> Callable[..., object]:
    """`temporary_file` where nothing can be written below a folder; as root everything can."""
    plain = module.temporary_file

    def refuse(path: Path) -> object:
        if path.is_relative_to(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return plain(path)

    return refuse


@pytest.mark.usefixtures("light")
def test_a_copy_in_a_folder_that_can_only_be_read_is_used(file, cache, monkeypatch):
    folder = converted(file, SHA256, weights=True)
    monkeypatch.setattr(module, "temporary_file", unwritable(cache))
    assert converted(file, SHA256, weights=True) == folder


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("had_texts", [False, True])
def test_where_the_cache_can_only_be_read_the_copy_lies_among_temporary_files(
    file, cache, passing, monkeypatch, had_texts
):
    if had_texts:
        converted(file, SHA256, weights=False)
    monkeypatch.setattr(module, "temporary_file", unwritable(cache))
    folder = converted(file, SHA256, weights=True)
    assert folder.is_relative_to(passing)
    assert {p.name for p in folder.iterdir()} == {*FILES, WEIGHTS}
    assert converted(file, SHA256, weights=True) == folder


@pytest.mark.usefixtures("light")
def test_no_folder_for_temporary_files_is_one_line_as_well(file, monkeypatch):
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    module._passing.cache_clear()
    monkeypatch.setattr("tempfile.gettempdir", none)
    monkeypatch.setattr(module, "temporary_file", unwritable(Path("/")))
    with pytest.raises(ModelError, match="No usable temporary directory found"):
        converted(file, SHA256, weights=False)


@pytest.mark.usefixtures("light")
def test_no_room_among_temporary_files_names_their_folder(file, cache, passing, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 0))
    monkeypatch.setattr(module, "temporary_file", unwritable(cache))
    with pytest.raises(ModelError, match=f"in {passing}.*: 0 MB are free"):
        converted(file, SHA256, weights=True)


@pytest.mark.usefixtures("light")
def test_a_cache_below_a_file_is_one_that_cannot_be_written(file, tmp_path, passing, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "file" / "below"))
    assert converted(file, SHA256, weights=False).is_relative_to(passing)


@pytest.mark.usefixtures("passing", "light")
def test_where_no_folder_can_be_written_one_line_says_so(file, monkeypatch):
    monkeypatch.setattr(module, "temporary_file", unwritable(Path("/")))
    with pytest.raises(
        ModelError, match=r"models \(Permission denied\) .*LEVELFIELD_CACHE"
    ) as caught:
        converted(file, SHA256, weights=False)
    assert "\n" not in str(caught.value)


def test_the_copy_among_temporary_files_goes_with_its_process(file, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(file), SHA256, "0"],
        env=os.environ
        | PATH
        | {"LEVELFIELD_CACHE": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(tmp_path / "tmp")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_the_copy_is_what_transformers_makes_of_the_file(tmp_path, architecture):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import tiny_gguf

    file = tiny_gguf.write(tmp_path / "a.gguf", architecture=architecture)
    folder = converted(file, SHA256, weights=True)
    ours, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    reference = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    expected = reference.state_dict()
    for name, values in ours.state_dict().items():
        assert torch.equal(values, expected[name]), name
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        assert torch.equal(ours(ids).logits, reference(ids).logits)
