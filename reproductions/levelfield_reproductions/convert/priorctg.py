"""PriorControl: what a checkpoint of MultiCTG has, and a flow with a Gaussian a label.

Layout: the tensors of the layout `multictg`, in one file with `inv_flow.module_list.K.*`, the
blocks of the flow, and `priors.J`, (2, d) with the mean and the logarithm of the standard deviation
of label J. A block is the `AllInOneBlock` of FrEIA 0.2 as the authors make it. With x_1 the first
half of x, and (a_s, a_t) what the block's network of one hidden layer (LeakyReLU 0.1) makes of it,

    y = R (g · (x_1, x_2 · exp(2 tanh(0.1 a_s)) + 0.1 a_t) + b)

R is `w_perm`, a rotation; g = 0.2 log(1 + exp(global_scale / 2)), b = `global_offset`. A coupling
of a guide's flow computes the same with a network whose last layer is 0.2 times theirs for s and
0.1 times for t. Heads that classify are for training only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.generation.guides import meant
from levelfield.generation.techniques._latent.network import FlowShape
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.multictg import FlowPart, MultiCTGOptions, latent_guide
from levelfield_reproductions.convert.reading import PublishedFiles, Tensors

ORTHOGONAL = 1e-3
"""How far R Rᵀ may be from the identity."""


@dataclass(frozen=True, kw_only=True)
class PriorCTGOptions(MultiCTGOptions):
    """How a checkpoint of PriorControl is converted."""

    gaussians: str = option(
        "negative,positive,World,Sports,Business,Sci/Tech,toxic,nontoxic",
        "Labels of the checkpoint's Gaussians, in its order, separated by commas; those that the "
        "texts do not have are left out.",
    )


def _convert(source: PublishedFiles, out: Path, options: PriorCTGOptions) -> Converted:
    tensors = source.tensors()
    if "inv_flow.module_list.0.w_perm" not in tensors:
        raise ModelError(
            f"{source.path.name} has no flow (inv_flow.*); convert a checkpoint of MultiCTG with "
            "the layout multictg"
        )
    names = [name.strip() for name in options.gaussians.split(",")]
    blocks = _blocks(tensors)
    gaussians = _gaussians(tensors, names, blocks[0]["rotation"].shape[0])
    tensors.drop(r"prior_classify_head\..*")
    flow_of = partial(_flow, blocks, dict(zip(names, gaussians, strict=True)))
    return latent_guide(tensors, out, options, source.allow_pickle, flow_of)


def _blocks(tensors: Tensors) -> list[dict[str, torch.Tensor]]:
    """Returns the tensors of each block as a `Coupling` has them."""
    blocks: list[dict[str, torch.Tensor]] = []
    while f"inv_flow.module_list.{len(blocks)}.w_perm" in tensors:
        blocks.append(_block(tensors, f"inv_flow.module_list.{len(blocks)}."))
    return blocks


def _block(tensors: Tensors, prefix: str) -> dict[str, torch.Tensor]:
    size = len(tensors.peek(f"{prefix}w_perm"))
    if size % 2:
        raise ModelError(
            f"{prefix}w_perm has {size} numbers; expected an even number: for an odd one, the "
            "halves of a block differ here"
        )
    half = size // 2
    width = len(tensors.peek(f"{prefix}subnet.0.weight"))
    taken = tensors.take_all(
        {
            "global_scale": (1, size),
            "global_offset": (1, size),
            "w_perm": (size, size),
            "w_perm_inv": (size, size),
            "subnet.0.weight": (width, half),
            "subnet.0.bias": (width,),
            "subnet.2.weight": (size, width),
            "subnet.2.bias": (size,),
        },
        prefix,
    )
    rotation = taken["w_perm"].double()
    if not torch.allclose(rotation @ rotation.T, torch.eye(size).double(), atol=ORTHOGONAL):
        raise ModelError(f"{prefix}w_perm is not a rotation")
    if not torch.allclose(taken["w_perm_inv"], taken["w_perm"].T, atol=ORTHOGONAL):
        raise ModelError(f"{prefix}w_perm_inv is not the inverse of w_perm")
    scales = torch.cat([torch.full((half,), 0.2), torch.full((half,), 0.1)])
    scale = 0.2 * F.softplus(taken["global_scale"][0].double() / 2)
    if not (scale > 0).all():
        raise ModelError(f"{prefix}global_scale makes a scale of 0, which has no inverse")
    return {
        "rotation": _nearest_rotation(rotation),
        "log_scale": scale.log().float(),
        "shift": taken["global_offset"][0].float(),
        "net.0.weight": taken["subnet.0.weight"].float(),
        "net.0.bias": taken["subnet.0.bias"].float(),
        "net.2.weight": taken["subnet.2.weight"].float() * scales[:, None],
        "net.2.bias": taken["subnet.2.bias"].float() * scales,
    }


def _nearest_rotation(matrix: torch.Tensor) -> torch.Tensor:
    """Returns the orthogonal matrix next to one that was rounded, whose transpose undoes it."""
    U, _, V = torch.linalg.svd(matrix)
    nearest: torch.Tensor = U @ V
    return nearest


def _gaussians(tensors: Tensors, names: Sequence[str], size: int) -> list[torch.Tensor]:
    """Returns the mean and the logarithm of the standard deviation of each label: (2, d)."""
    n = sum(name.startswith("priors.") for name in tensors)
    if len(names) != n or len(set(names)) != n:
        raise UserError(
            f"gaussians={','.join(names)}: the checkpoint has {n} Gaussians; expected as many "
            "labels, each once"
        )
    return [tensors.take(f"priors.{j}", 2, size).float() for j in range(n)]


def _flow(
    blocks: Sequence[Mapping[str, torch.Tensor]],
    gaussians: Mapping[str, torch.Tensor],
    labels: Mapping[str, Sequence[str]],
    size: int,
) -> FlowPart:
    """Returns the flow with the Gaussians of these labels."""
    flow_size = len(blocks[0]["rotation"])
    if flow_size != size:
        raise ModelError(f"the flow has {flow_size} numbers, and a latent has {size}")
    width = len(blocks[0]["net.0.bias"])
    chosen = [_gaussian(gaussians, a, label) for a, names in labels.items() for label in names]
    tensors = {
        f"flow.blocks.{k}.{name}": tensor.contiguous()
        for k, block in enumerate(blocks)
        for name, tensor in block.items()
    }
    tensors["flow.mean"] = torch.stack([mean for mean, _ in chosen])
    tensors["flow.log_sd"] = torch.stack([log_sd for _, log_sd in chosen])
    shape = FlowShape(size, len(blocks), width, actnorm=True)
    return FlowPart(asdict(shape), tensors, f"{len(blocks)} affine couplings of width {width}")


def _gaussian(gaussians: Mapping[str, torch.Tensor], attribute: str, label: str) -> torch.Tensor:
    name = meant(attribute, label, list(gaussians))
    if name is None:
        raise UserError(
            f"{attribute} {label} is not one of the Gaussians' labels: {', '.join(gaussians)}; "
            "give them as -o gaussians=LABEL,LABEL"
        )
    return gaussians[name]


CONVERTER = Converter(PriorCTGOptions, _convert)
