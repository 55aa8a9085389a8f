"""Files of models: what they say without the weights in memory, and those that papers published."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from levelfield.core.errors import ModelError
from levelfield.io.fetch import Published
from levelfield.models.contracts import FIM
from levelfield.models.converted import converted
from levelfield.models.loading import quiet, reading
from levelfield.models.resolve import Resolved


def check_finite(resolved: Resolved, tensors: Iterable[tuple[str, Any]]) -> None:
    """Checks that all weights are numbers.

    Args:
        tensors: names with tensors of PyTorch or arrays.

    Raises:
        ModelError: names the first weights that are not.
    """
    for name, tensor in tensors:
        # NaN is the least and the largest of what it is among
        ends = (tensor.min().item(), tensor.max().item()) if 0 not in tensor.shape else ()
        if not all(map(math.isfinite, ends)):
            raise ModelError(
                f"model '{resolved.name}' can't be used: its weights {name} are not all finite "
                "numbers; train or download it again"
            )


def check_depth(resolved: Resolved, folder: Path) -> None:
    """Checks that a model's weights can be those of its layers, before the layers are built.

    Args:
        folder: of the weights; pickled ones are not counted.

    Raises:
        ModelError: the configuration has more layers than the weights have tensors, or files of
            weights are damaged.
    """
    from safetensors import safe_open

    layers = getattr(load_config(resolved), "num_hidden_layers", None)
    files = sorted(folder.glob("*.safetensors"))
    if not files or not isinstance(layers, int):
        return
    tensors = 0
    with reading(resolved.name):
        for file in files:
            with safe_open(file, "np") as weights:
                tensors += len(weights.keys())
    if layers > tensors:
        raise ModelError(
            f"model '{resolved.name}' can't be used: its configuration has {layers:,} layers, and "
            f"its weights are {tensors:,} tensors; download it again"
        )


def whole_folder(resolved: Resolved) -> Path:
    """Returns the folder with all files of a model, the weights among them.

    Raises:
        ModelError: the disk has no room for the converted weights.
    """
    if part := resolved.exit or resolved.adapter:
        return whole_folder(part.model)
    if resolved.gguf is None:
        return resolved.path
    return converted(resolved.gguf, resolved.revision, weights=True)


def load_tokenizer(resolved: Resolved) -> Any:
    """Returns the tokenizer of a resolved name, without the model's weights in memory.

    Raises:
        ModelError: its files are damaged.
    """
    import transformers

    quiet()
    kind = transformers.AutoTokenizer
    if resolved.gguf:  # `AutoTokenizer` may split texts by the rule of the architecture
        kind = transformers.PreTrainedTokenizerFast
    with reading(resolved.name):
        return kind.from_pretrained(resolved.path, local_files_only=True, trust_remote_code=False)


def load_config(resolved: Resolved) -> Any:
    """Returns the configuration of a model as `transformers` reads it.

    Raises:
        ModelError: its files are damaged.
    """
    from transformers import AutoConfig

    with reading(resolved.name):
        return AutoConfig.from_pretrained(
            resolved.path, local_files_only=True, trust_remote_code=False
        )


def fills_in_the_middle(resolved: Resolved) -> bool:
    """Returns whether the tokenizer of a causal model has the tokens around a gap; no weights are
    loaded.

    Raises:
        ModelError: its files are damaged.
    """
    # loading a tokenizer takes seconds, and the files of most have no word of a gap
    word = FIM[0].strip("<|>").encode()
    with reading(resolved.name):
        kinds = (".json", ".model", ".txt")
        files = [p for p in resolved.path.iterdir() if p.suffix in kinds and p.is_file()]
        if not any(word in file.read_bytes() for file in files):
            return False
    vocabulary = load_tokenizer(resolved).get_vocab()
    return all(token in vocabulary for token in FIM)


def depth(resolved: Resolved) -> int:
    """Returns how many layers the encoder of a model has; no weights are loaded."""
    return int(load_config(resolved).num_hidden_layers)


IWF_PEGASUS = Published(
    set="ctrleval",
    repository="thu-coai/CTRLEval",
    commit="33639daedc376bd322f976f3feee5690a1de669e",
    path="iwf_full.txt",
    sha256="d88a4385a6a8471ce62b318bde7fee07093093555705aa1b46f429f7a2067728",
    bytes=1_957_274,
)

GPT2_VOCABULARY = Published(
    set="gpt2-bpe",
    repository="PlusLabNLP/DEAM",
    commit="97b9549f7953dea4ab2f60cd2643e11c8216ab15",
    path="coh_models/vocab.json",
    sha256="ed19656ea1707df69134c4af35c8ceda2cc9860bf2c3495026153a133670ab5e",
    bytes=798_293,
)
GPT2_MERGES = Published(
    set="gpt2-bpe",
    repository="PlusLabNLP/DEAM",
    commit="97b9549f7953dea4ab2f60cd2643e11c8216ab15",
    path="coh_models/merges.txt",
    sha256="fe36cab26d4f4421ed725e10a2e9ddb7f799449c603a96e7f29b5a3c82a95862",
    bytes=456_356,
)
