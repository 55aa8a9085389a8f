"""What the user says of where a run works, and on which part."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from typing import Literal

from levelfield.core.errors import UserError, with_extra
from levelfield.core.limits import WORKERS
from levelfield.core.options import Options, option

WorkerCount = int | Literal["auto"] | None
"""How many; None is this process alone, or, of a cluster, `auto`."""

_ADDRESS = re.compile(r"auto|local|(ray://)?(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):[0-9]{1,5}")
_EXPECTED_ADDRESS = (
    "auto, HOST:PORT or ray://HOST:PORT; without an address, put --ray last on the line, or use "
    "`--ray local`"
)


def check_address(address: str) -> str:
    """Returns the address of a cluster, if it can be one.

    Raises:
        UserError: it can't, or Ray is not installed.
    """
    if not _ADDRESS.fullmatch(address):
        raise UserError(f"ray={address:.80}: expected {_EXPECTED_ADDRESS}")
    if importlib.util.find_spec("ray") is None:
        raise UserError(f"ray is not installed: {with_extra('ray')}")
    return address


def _is_shard(text: str) -> bool:
    number, _, count = text.partition("/")
    return number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)


@dataclass(frozen=True, kw_only=True)
class WorkPlace(Options):
    """Where partitions are worked on, and which of them.

    Raises:
        UserError: there can't be such a place.
    """

    workers: WorkerCount = option(
        None,
        "Number of processes that do the work, or with --ray, of tasks at a time; auto: as many as "
        "processors, memory and GPUs allow.",
        least=1,
        most=WORKERS,
        otherwise="1; auto with --ray",
        metavar="N",
    )
    ray: str | None = option(
        None,
        "Work on a Ray cluster: auto, HOST:PORT or ray://HOST:PORT; local, or no address, "
        "starts Ray on this machine.",
        fits=_ADDRESS.fullmatch,
        expected=_EXPECTED_ADDRESS,
        bare="local",
        metavar="[ADDRESS]",
    )

    shard: str | None = option(
        None,
        "Do only the K-th of N parts of the work, as one job of a scheduler.",
        fits=_is_shard,
        expected="K/N, with K from 1 to N, such as 2/8",
        metavar="K/N",
        otherwise="all of it",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ray is not None:
            check_address(self.ray)

    def part(self, n: int) -> slice:
        """Returns the part of a list of n that the shard is; parts follow each other, and differ
        in length by one at most.

        >>> [WorkPlace(shard=f"{k}/3").part(7) for k in (1, 2, 3)]
        [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
        """
        number, count = map(int, (self.shard or "1/1").split("/"))
        return slice(n * (number - 1) // count, n * number // count)
