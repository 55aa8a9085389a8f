"""The tokenizer of a converted model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from levelfield.core.errors import ModelError
from levelfield.models.files import load_tokenizer
from levelfield.models.loading import reading
from levelfield.models.resolve import resolve

_TOKENIZER = (
    *("vocab.json", "merges.txt", "tokenizer.json"),
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
)


def write_tokenizer(source: Path, folder: Path, name: str) -> None:
    """Puts a tokenizer into the folder of a model.

    Args:
        source: the authors' folder.
        folder: of the model; has its `config.json`.
        name: the model whose tokenizer is taken; empty for the authors' own.

    Raises:
        ModelError: the authors' folder has none and no model is named, or it is damaged.
    """
    import transformers

    if name:
        tokenizer: Any = load_tokenizer(resolve(name))
    else:
        files = [source / file for file in _TOKENIZER if (source / file).is_file()]
        if not files:
            raise ModelError(
                f"{source.name} has no tokenizer (vocab.json and merges.txt); name the model that "
                "it was fine-tuned from with -o tokenizer=NAME"
            )
        for file in files:
            shutil.copy(file, folder)
        with reading(source.name):
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    tokenizer.save_pretrained(folder)
