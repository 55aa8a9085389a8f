"""A BERT's tokenizer, read by `tokenizers` alone: `transformers` makes the same one, and its import
takes longer than a short run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers

from levelfield.io.json_input import parse_json, read_json
from levelfield.io.streams import read_text

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
        """The ids of a text; special tokens in it are marks."""
        self.backend_tokenizer.encode_special_tokens = False
        encoded = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return {"input_ids": encoded.ids}


def tokenizer_file(folder: Path) -> TokenizerFile | None:
    """The tokenizer of a folder; None if it is not a BERT's, or if the files in it do not agree on
    what it does.

    Raises:
        Exception: whatever their damage leads to; see `levelfield.models.reading`.
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
            normalizer.get(name) == config.get(*of_config)
            for name, of_config in _NORMALIZER.items()
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
