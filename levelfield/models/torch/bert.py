"""Sentence models that are a BERT and a mean, such as `offline/minilm`, without the libraries whose
import takes several times as long as a short run.

The weights go through the operations that `transformers` takes, in its order, so the numbers are
those of `sentence-transformers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors import safe_open
from torch.nn import functional

from levelfield.io.json_input import parse_json, read_json
from levelfield.io.streams import read_text
from levelfield.models.loading import Loading
from levelfield.models.torch.loading import placement

_CLASSES = ("BertTokenizer", "BertTokenizerFast")
_SPECIAL = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_NORMALIZER = {
    "lowercase": ("do_lower_case", True),
    "handle_chinese_chars": ("tokenize_chinese_chars", True),
    "strip_accents": ("strip_accents", None),
}
"""Settings in `tokenizer.json`, and which of the configuration's they must equal."""


class TokenizerFile:
    """What `levelfield.models.tokens.Tokens` asks of a tokenizer of `transformers`.

    Attributes:
        backend_tokenizer: cuts texts.
        all_special_tokens, all_special_ids: of its five marks.
        unk_token_id, pad_token_id: two of them.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, special: dict[str, str]) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.backend_tokenizer = tokenizer
        self.all_special_tokens = list(special.values())
        self.all_special_ids = [_id(tokenizer, token) for token in special.values()]
        self.unk_token_id = _id(tokenizer, special["unk_token"])
        self.pad_token_id = _id(tokenizer, special["pad_token"])

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """Returns the ids of a text; special tokens in it are marks."""
        self.backend_tokenizer.encode_special_tokens = False
        encoded = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return {"input_ids": encoded.ids}


def tokenizer_file(folder: Path) -> TokenizerFile | None:
    """Returns the tokenizer of a folder; None if it is not a BERT's, or if the files in it do not
    agree on what it does.

    Raises:
        Exception: whatever their damage leads to; see `levelfield.models.loading`.
    """
    files = [folder / name for name in ("tokenizer_config.json", "tokenizer.json")]
    if not all(file.is_file() for file in files):
        return None
    config, text = read_json(files[0]), read_text(files[1])
    file = parse_json(text)
    special = {name: _content(config.get(name)) for name in _SPECIAL}
    if config.get("tokenizer_class") not in _CLASSES or not _agree(config, file, special):
        return None
    return TokenizerFile(tokenizers.Tokenizer.from_str(text), special)


def _agree(config: Any, file: Any, special: dict[str, str]) -> bool:
    normalizer = file.get("normalizer") or {}
    added = {token["content"]: token for token in file.get("added_tokens", ())}
    return (
        [normalizer.get("type"), normalizer.get("clean_text")] == ["BertNormalizer", True]
        and all(
            normalizer.get(name) == config.get(*setting) for name, setting in _NORMALIZER.items()
        )
        and file.get("pre_tokenizer") == {"type": "BertPreTokenizer"}
        and file["model"].get("type", "WordPiece") == "WordPiece"
        and (file.get("post_processor") or {}).get("type") == "TemplateProcessing"
        and added.keys() == set(special.values())
        and all(token["special"] and not token["normalized"] for token in added.values())
    )


def _id(tokenizer: tokenizers.Tokenizer, token: str) -> int:
    id = tokenizer.token_to_id(token)
    assert id is not None, "added tokens have ids"
    return id


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token)


_TYPE = "model_type"
_CONFIG = {
    _TYPE: "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
"""What the configuration must say; all but the type are what it says where it is silent."""
_MODULES = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
_POOLING = {"pooling_mode_mean_tokens"}
_EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")
_LAYER = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class BertMean:
    """A BERT whose states' mean stands for a text.

    Attributes:
        weights: by the names that `transformers` gives them, on one device.
        layers, heads: how many there are.
        eps: of the layer norms.
        limit: how many tokens it takes.
        unit: whether the mean is brought to unit length.
        tokenizer: of its folder.
    """

    weights: Weights
    layers: int
    heads: int
    eps: float
    limit: int
    unit: bool
    tokenizer: TokenizerFile

    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Returns the weights."""
        yield from self.weights.items()

    def __call__(self, features: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the states of the tokens and their means.

        Args:
            features: `input_ids` and `attention_mask`, (texts, tokens).

        Returns:
            `token_embeddings`, (texts, tokens, d); `sentence_embedding`, (texts, d).
        """
        ids, seen = features["input_ids"], features["attention_mask"]
        mask = None if bool(seen.all()) else seen.bool()[:, None, None, :]
        states = self._embedded(ids)
        for layer in range(self.layers):
            states = self._layer(states, mask, f"encoder.layer.{layer}.")
        weight = seen.unsqueeze(-1).expand(states.shape).to(states.dtype)
        mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        if self.unit:
            mean = functional.normalize(mean, p=2, dim=1)
        return {"token_embeddings": states, "sentence_embedding": mean}

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        words = functional.embedding(ids, self.weights["embeddings.word_embeddings.weight"])
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        places = self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        return self._norm(words + types + places, "embeddings.LayerNorm")

    def _layer(self, states: torch.Tensor, mask: torch.Tensor | None, name: str) -> torch.Tensor:
        def by_head(projection: str) -> torch.Tensor:
            projected = self._linear(states, f"{name}attention.self.{projection}")
            return projected.view(*states.shape[:2], self.heads, -1).transpose(1, 2)

        mixed = functional.scaled_dot_product_attention(
            by_head("query"), by_head("key"), by_head("value"), attn_mask=mask
        )
        mixed = mixed.transpose(1, 2).flatten(2)
        attended = self._linear(mixed, f"{name}attention.output.dense")
        states = self._norm(attended + states, f"{name}attention.output.LayerNorm")
        inner = functional.gelu(self._linear(states, f"{name}intermediate.dense"))
        output = self._linear(inner, f"{name}output.dense")
        return self._norm(output + states, f"{name}output.LayerNorm")

    def _linear(self, states: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(
            states, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )

    def _norm(self, states: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(states, weight.shape, weight, bias, self.eps)


def load_bert_mean(folder: Path, loading: Loading) -> BertMean | None:
    """Returns the model of a folder; None if it is anything but a BERT and a mean, or is stored
    otherwise than it is written today.

    Raises:
        Exception: whatever its files' damage leads to; see `levelfield.models.loading`.
    """
    device, dtype = placement(loading)
    file = folder / "model.safetensors"
    config = read_json(folder / "config.json")
    if not file.is_file() or any(config.get(k, v) != v for k, v in _CONFIG.items()):
        return None
    modules, limit = _modules(folder), _limit(folder)
    tokenizer = tokenizer_file(folder)
    if _TYPE not in config or not modules or not limit or tokenizer is None:
        return None
    layers, sizes = int(config["num_hidden_layers"]), _sizes(config)
    with safe_open(file, "pt", device=str(device)) as stored:
        names = set(stored.keys())
        prefix = "bert." if "bert.embeddings.LayerNorm.weight" in names else ""
        required = [f"{name}.{kind}" for name, kind in _parameters(layers)]
        if not names.issuperset(prefix + name for name in required):
            return None
        if any(stored.get_slice(prefix + n).get_shape() != size for n, size in sizes.items()):
            return None
        weights = {name: stored.get_tensor(prefix + name).to(dtype) for name in required}
    return BertMean(
        weights,
        layers=layers,
        heads=int(config["num_attention_heads"]),
        eps=float(config.get("layer_norm_eps", 1e-12)),
        limit=min(limit, len(weights["embeddings.position_embeddings.weight"])),
        unit="Normalize" in modules,
        tokenizer=tokenizer,
    )


def _sizes(config: Mapping[str, Any]) -> dict[str, list[int]]:
    """Returns the shapes of some weights, if they are those that the configuration speaks of."""
    d = config["hidden_size"]
    return {
        "embeddings.word_embeddings.weight": [config["vocab_size"], d],
        "embeddings.position_embeddings.weight": [config["max_position_embeddings"], d],
        "embeddings.token_type_embeddings.weight": [config["type_vocab_size"], d],
        "encoder.layer.0.intermediate.dense.weight": [config["intermediate_size"], d],
    }


def _parameters(layers: int) -> Iterator[tuple[str, str]]:
    for name in _EMBEDDINGS:
        yield f"embeddings.{name}", "weight"
    yield "embeddings.LayerNorm", "bias"
    for layer in range(layers):
        for name in _LAYER:
            yield f"encoder.layer.{layer}.{name}", "weight"
            yield f"encoder.layer.{layer}.{name}", "bias"


def _modules(folder: Path) -> tuple[str, ...]:
    """Returns what the folder's sentence model does one after the other; nothing if that is not a
    mean of the encoder's states."""
    file = folder / "modules.json"
    modules = read_json(file) if file.is_file() else []
    types = tuple(str(module["type"]).rpartition(".")[2] for module in modules)
    if types not in _MODULES or modules[0]["path"]:
        return ()
    pooling = read_json(folder / modules[1]["path"] / "config.json")
    modes = {name for name, on in pooling.items() if name.startswith("pooling_mode") and on is True}
    return types if modes == _POOLING and pooling.get("include_prompt", True) else ()


def _limit(folder: Path) -> int:
    """Returns how many tokens the folder's sentence model reads; 0 if it does not say, or changes
    texts."""
    file = folder / "sentence_bert_config.json"
    reading = read_json(file) if file.is_file() else {}
    return 0 if reading.get("do_lower_case") else int(reading.get("max_seq_length") or 0)
