"""Makes early exits of a causal model: for each layer the affine map from its states to the last.

    python tools/early_exit.py CORPUS OUT --layers 2 4 8 --source "our novels: public domain"

CORPUS is a folder of plain text (also `.gz`, `.xz`), each file with documents between empty lines.
OUT gets a folder a layer, which is a model by its path: `config.json`, `map.safetensors`, a card.

With x the states after a layer, each divided by its root mean square, and y what the model's output
layer reads, A and b minimise Σ ‖A x + b − y‖² over the tokens of passages of the corpus, as many of
each file. Every fiftieth document is held out from training, and the perplexities are those of its
passages. Passages are drawn by seed, and a single thread adds up, so that a second run on the same
machine gives the same bytes. With `--untrained` nothing is trained: the model's final norm takes
the place of the map.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from levelfield.core.arrays import Ints
from levelfield.models.loading import Loading
from levelfield.models.resolve import EARLY_EXIT, resolve
from levelfield.models.torch.early_exit import unit_rms
from levelfield.models.torch.loading import load_pretrained
from levelfield.train.builder import Card, write_card
from levelfield.train.corpus import HELD_OUT, corpus_documents

WINDOW = 256
"""Tokens of a passage."""
PASSAGES, HELD_PASSAGES = 64, 8
"""Of each file, to learn from and to measure on."""
BATCH = 4


def passages(files: Sequence[Path], tokenizer: Any, *, held: bool) -> Ints:
    """Returns ids of passages that begin anywhere in a document: (passages, WINDOW)."""
    rng = np.random.default_rng(int(held))
    rows: list[list[int]] = []
    for file in files:
        documents = [
            text
            for number, text in enumerate(corpus_documents([file]))
            if (number % HELD_OUT == 0) == held
        ]
        total = len(rows) + (HELD_PASSAGES if held else PASSAGES)
        while len(rows) < total:
            text = documents[rng.integers(len(documents))]
            begin = int(rng.integers(len(text)))
            near = text[begin : begin + 16 * WINDOW].partition(" ")[2]
            ids = tokenizer(near, add_special_tokens=False)["input_ids"][:WINDOW]
            if len(ids) == WINDOW:
                rows.append(ids)
    return np.array(rows)


def states(model: Any, bos: int, ids: Ints) -> list[torch.Tensor]:
    """Returns the states that predict each token, by layer: (tokens, width) each."""
    inputs = np.concatenate([np.full((len(ids), 1), bos), ids[:, :-1]], axis=1)
    output = model.base_model(
        input_ids=torch.from_numpy(inputs), output_hidden_states=True, use_cache=False
    )
    return [state.flatten(0, 1).float() for state in output.hidden_states]


def features(x: torch.Tensor) -> torch.Tensor:
    """Returns states of unit root mean square, and a 1: (tokens, width + 1)."""
    return torch.cat([unit_rms(x), torch.ones(len(x), 1)], dim=1)


def maps(model: Any, bos: int, ids: Ints, layers: Sequence[int]) -> dict[int, torch.Tensor]:
    """Returns A and b of each layer, stacked: (width + 1, width)."""
    sums: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for begin in range(0, len(ids), BATCH):
        activations = states(model, bos, ids[begin : begin + BATCH])
        y = activations[-1]
        for layer in layers:
            x = features(activations[layer])
            XX, XY = (x.T @ x).double(), (x.T @ y).double()
            before = sums.get(layer)
            sums[layer] = (before[0] + XX, before[1] + XY) if before else (XX, XY)
        print(f"{begin + BATCH} of {len(ids)} passages", flush=True)
    return {layer: torch.linalg.solve(XX, XY).half().float() for layer, (XX, XY) in sums.items()}


def norms(model: Any, layers: Sequence[int]) -> dict[int, torch.Tensor]:
    """Returns the model's final norm in place of A, and zeros for b, in the form of `maps`."""
    g = model.base_model.norm.weight.float()
    affine = torch.cat([g.diag(), torch.zeros(1, len(g))]).half().float()
    return dict.fromkeys(layers, affine)


def perplexities(
    model: Any, bos: int, ids: Ints, maps_of: dict[int, torch.Tensor]
) -> dict[int, float]:
    """Returns the perplexity of each early exit, and of the whole model under -1."""
    weight = model.get_output_embeddings().weight.float()
    losses = dict.fromkeys([*maps_of, -1], 0.0)
    for row in ids:
        activations = states(model, bos, row[None])
        tokens = torch.from_numpy(row)
        for layer in losses:
            y = activations[-1] if layer < 0 else features(activations[layer]) @ maps_of[layer]
            losses[layer] += float(torch.nn.functional.cross_entropy(y @ weight.T, tokens))
    return {layer: math.exp(loss / len(ids)) for layer, loss in losses.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes early exits of a causal model.")
    parser.add_argument("corpus", type=Path, help="folder of plain text")
    parser.add_argument("out", type=Path, help="folder for the models")
    parser.add_argument("--layers", type=int, nargs="+", required=True, help="counted from 1")
    parser.add_argument("--untrained", action="store_true", help="the final norm in place of a map")
    parser.add_argument("--model", default="offline/smollm2", help="what the exits leave")
    parser.add_argument("--source", action="append", default=[], help="of the text, for the card")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    resolved = resolve(options.model)
    model, tokenizer = load_pretrained(resolved, "causal", Loading(device="cpu", dtype="bfloat16"))
    files = sorted(path for path in options.corpus.iterdir() if ".txt" in path.suffixes)
    bos = tokenizer.bos_token_id
    if options.untrained:
        exits, learnt = norms(model, options.layers), "nothing: the final norm of the model"
    else:
        ids = passages(files, tokenizer, held=False)
        exits = maps(model, bos, ids, options.layers)
        learnt = f"{ids.size:,} tokens, by least squares"
    measured = perplexities(model, bos, passages(files, tokenizer, held=True), exits)
    for layer, affine in exits.items():
        folder = options.out / f"layer-{layer}"
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {"weight": affine[:-1].T, "bias": affine[-1]}
        save_file(
            {name: np.ascontiguousarray(t.half().numpy()) for name, t in tensors.items()},
            folder / "map.safetensors",
        )
        config = {
            "architectures": ["EarlyExitForCausalLM"],
            "model_type": EARLY_EXIT,
            "model": options.model,
            "revision": resolved.revision,
            "layer": layer,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        depth = model.config.num_hidden_layers
        facts = {
            "Layers": f"{layer} of {depth} of {options.model}, whose weights it reads",
            "Parameters of its own": f"{affine.numel():,} (an affine map, float16)",
            "Learnt from": learnt,
            "Perplexity": f"{measured[layer]:.0f} a token on held-out documents",
            f"Perplexity of all {depth} layers": f"{measured[-1]:.0f}",
            "Made with": f"PyTorch {torch.__version__}, tools/early_exit.py",
        }
        task = "reads text from left to right and knows less than the model that it is part of"
        write_card(Card(f"{options.model}, layer {layer}", task, facts, options.source), folder)


if __name__ == "__main__":
    main()
