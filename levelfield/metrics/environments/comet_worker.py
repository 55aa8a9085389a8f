"""Runs in the environment `comet`: reads requests on stdin, answers on stdout, a line each.

This file needs the standard library and `comet` alone; it is run by its path, and nothing of
levelfield is there. Requests, and their answers:

    {"load": checkpoint, "offline": bool}     {"version": str, "references": "required" | …}
    {"score": [{"src", "mt", "ref"?}, …],     {"values": [float, …], "cut": [bool, …]}
     "batch": int, "device": str}

What goes wrong is answered as {"error": …}.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import warnings
from typing import Any


def load(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the model of a checkpoint, and its description."""
    comet = importlib.import_module("comet")
    model = comet.load_from_checkpoint(request["load"], local_files_only=request["offline"])
    return model, {
        "version": importlib.metadata.version("unbabel-comet"),
        "references": references(model),
    }


def references(model: Any) -> str:
    """Returns whether a reference is `required`, `optional` or none is read (`none`)."""
    if model.requires_references():
        return "required"
    # models that read one sequence name what may be in it
    return "optional" if "ref" in model.hparams.get("input_segments", ()) else "none"


def score(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Returns a value for each sample, and whether the model read less than all of it."""
    samples = request["score"]
    prediction = model.predict(
        samples, batch_size=request["batch"], progress_bar=False, num_workers=0,
        **devices(request["device"]),
    )  # fmt: skip
    return {"values": [float(v) for v in prediction["scores"]], "cut": cut(model, samples)}


def devices(device: str) -> dict[str, Any]:
    """Returns the device as arguments of `predict`."""
    import torch

    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return {"gpus": 0}
    _, _, number = device.partition(":")
    return {"gpus": 1, "devices": [int(number)]} if number else {"gpus": 1}


def cut(model: Any, samples: list[dict[str, str]]) -> list[bool]:
    """Returns whether a text exceeds the encoder's limit, or all texts of a sample together do if
    the model reads them in one sequence."""
    encoder = model.encoder
    together = hasattr(model, "concat_inputs")
    cuts = []
    for sample in samples:
        lengths = [len(ids) for ids in encoder.tokenizer(list(sample.values()))["input_ids"]]
        too_long = max(lengths) > encoder.max_positions - 2
        cuts.append(too_long or (together and sum(lengths) > encoder.max_positions))
    return cuts


def main() -> None:
    # what libraries print must not come between the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    warnings.simplefilter("ignore")
    model: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if "load" in request:
                model, answer = load(request)
            else:
                answer = score(model, request)
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0]
            answer = {"error": f"{type(error).__name__}: {reason}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
