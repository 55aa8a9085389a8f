"""The head of continuations that ships with the package, from a folder with the texts that
docs/composite.md lists: `python tools/continuation.py FOLDER`. The same texts give the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scipy.stats import mannwhitneyu

from levelfield.models.resolve import CONTINUATION, OFFLINE_LM, resolve
from levelfield.models.small.heads import Encoder, States, fit_head
from levelfield.train.scales import drawn_passages

KINDS = ("wikipedia", "novels", "state-of-the-union")
"""Kinds of text whose case and spacing are those of people."""
PASSAGES = 3000
"""Most passages of each kind."""
PROMPT = (3, 12)
"""Fewest and most words of a prompt."""
OTHERS = 50
"""Passages from which the continuation of another document is drawn."""
WORDS = (10, 40)
"""Fewest and most words of a continuation."""
HELD_OUT = 5
"""One passage in this many is held out."""
LAYERS, DEPTH, L2 = 12, 23, 1.0
"""Chosen by the accuracy of heads of two kinds of text on the third."""
OUT = Path(__file__).parents[1] / "levelfield" / "models" / "offline" / "continuation"


def pairs_of(file: Path, seed: int) -> list[tuple[str, str, str]]:
    """Returns prompts, each with its own continuation and one of another document, equally long.

    Both continuations begin equally far from the beginning of a sentence, so neither a capital nor
    the length distinguishes them.
    """
    rng = np.random.default_rng([7, seed])
    passages = drawn_passages(str(file), PASSAGES, rng)
    pairs = []
    for i, passage in enumerate(passages):
        others = [
            other
            for other in (passages[i + 1 :] + passages[:i])[:OTHERS]
            if other.document != passage.document
        ]
        cut = int(rng.integers(PROMPT[0], PROMPT[1] + 1))
        most = int(rng.integers(WORDS[0], WORDS[1] + 1))
        other = others[int(rng.integers(len(others)))]
        continuation, foreign = passage.text.split()[cut:], other.text.split()[cut:]
        n = min(most, len(continuation), len(foreign))
        prompt = " ".join(passage.text.split()[:cut])
        pairs.append((prompt, " " + " ".join(continuation[:n]), " " + " ".join(foreign[:n])))
    return pairs


def main(folder: Path) -> None:
    kinds = [pairs_of(folder / f"{kind}.txt.xz", n) for n, kind in enumerate(KINDS)]
    triples = [triple for kind in kinds for triple in kind]
    base = resolve(OFFLINE_LM)
    states = States(base, LAYERS, depth=DEPTH)
    true, _ = states.continuation_means([triple[:2] for triple in triples])
    foreign, _ = states.continuation_means([(prompt, other) for prompt, _, other in triples])
    kind_of = np.repeat(np.arange(len(KINDS)), [len(kind) for kind in kinds])
    held_out = np.arange(len(triples)) % HELD_OUT == 0
    x = np.concatenate([true[~held_out], foreign[~held_out]])
    is_true = np.repeat([1.0, 0.0], (~held_out).sum())
    times = np.tile(1 / np.bincount(kind_of)[kind_of][~held_out], 2)  # a kind counts as another
    head = fit_head(x, np.stack([is_true, 1 - is_true], 1), times, L2)
    weight, bias = head.weight[:, :1] - head.weight[:, 1:], head.bias[:1] - head.bias[1:]
    auc = {}
    for n, kind in enumerate(KINDS):
        same, other = ((part[held_out & (kind_of == n)] @ weight)[:, 0] for part in (true, foreign))
        auc[kind] = round(float(mannwhitneyu(same, other).statistic / len(same) / len(other)), 4)
    OUT.mkdir(parents=True, exist_ok=True)
    save_file({"weight": weight, "bias": bias}, OUT / "head.safetensors")
    about = {"model_type": CONTINUATION, **Encoder.of(OFFLINE_LM, base, LAYERS, DEPTH).as_config()}
    (OUT / "config.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    test = {"auc": auc, "pairs": len(triples), "held_out": int(held_out.sum())}
    (OUT / "test.json").write_text(json.dumps(test, indent=1) + "\n", encoding="utf-8")
    print(test)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
