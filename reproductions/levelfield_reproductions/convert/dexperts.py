"""DExperts: experts and anti-experts, each a GPT-2 that learnt texts of one label.

Layout: a folder with a folder `finetuned_gpt2_LABEL` for each label, as `save_pretrained` of
transformers 3 wrote it: `config.json`, `pytorch_model.bin`, and maybe a tokenizer. Or one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import ModelError
from levelfield.core.options import Options, option
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.model_folder import write_gpt2
from levelfield_reproductions.convert.reading import PublishedFiles

PREFIX = "finetuned_gpt2_"


@dataclass(frozen=True, kw_only=True)
class DExpertsOptions(Options):
    """How experts are converted."""

    tokenizer: str = option(
        "",
        "Model whose tokenizer the experts use if their folders have none: gpt2-large, or a "
        "folder.",
        blank=True,
        otherwise="the folders' own",
    )


def _convert(source: PublishedFiles, out: Path, options: DExpertsOptions) -> Converted:
    task = "writes texts of one label, for DExperts"
    if (source.path / "config.json").is_file():
        resolved = write_gpt2(source, source.tensors(), out, options.tokenizer)
        usage = "give it to dexperts as -o experts=LABEL={out},OTHER=MODEL"
        return Converted(task, usage, {"Model": resolved.model_type})
    folders = source.path.glob("*/config.json") if source.path.is_dir() else ()
    experts = {path.parent.name.removeprefix(PREFIX): path.parent.name for path in sorted(folders)}
    if not experts:
        raise ModelError(
            f"{source.path.name} has neither config.json nor folders that have one; expected a "
            f"folder with {PREFIX}positive and {PREFIX}negative, or one of these"
        )
    for label, name in experts.items():
        inner = source.inside(name)
        write_gpt2(inner, inner.tensors(), out / label, options.tokenizer)
    pairs = ",".join(f"{label}={{out}}/{label}" for label in experts)
    return Converted(
        task, f"give them to dexperts as -o experts={pairs}", {"Labels": ", ".join(experts)}
    )


CONVERTER = Converter(DExpertsOptions, _convert)
