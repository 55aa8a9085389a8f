"""Files that papers published: where they are, which bytes they must have."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from levelfield.errors import UserError


@dataclass(frozen=True)
class Published:
    """One file at one commit of a public repository.

    Attributes:
        set: the folder under `$LEVELFIELD_DATA` where a copy is looked for first.
        repository, commit, path: where it was published.
        sha256: of its bytes.
    """

    set: str
    repository: str
    commit: str
    path: str
    sha256: str

    @property
    def url(self) -> str:
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.path}"


IWF_PEGASUS = Published(
    set="ctrleval",
    repository="thu-coai/CTRLEval",
    commit="33639daedc376bd322f976f3feee5690a1de669e",
    path="iwf_full.txt",
    sha256="d88a4385a6a8471ce62b318bde7fee07093093555705aa1b46f429f7a2067728",
)


def fetch(file: Published) -> Path:
    """A local copy with the right bytes: from `$LEVELFIELD_DATA`, the cache, or the network.

    Raises:
        UserError: it can't be downloaded, or the bytes are others.
    """
    import pooch
    import requests

    data = os.environ.get("LEVELFIELD_DATA")
    if data and (Path(data) / file.set / file.path).is_file():
        local = Path(data) / file.set / file.path
        if pooch.file_hash(str(local)) != file.sha256:
            raise UserError(f"{local} is not the file that was published: its sha256 differs")
        return local
    folder = platformdirs.user_cache_path("levelfield") / "published" / file.set
    try:
        found = pooch.retrieve(
            file.url, f"sha256:{file.sha256}", fname=Path(file.path).name, path=folder
        )
    except (requests.RequestException, OSError, ValueError) as error:
        raise UserError(
            f"{file.path} of {file.repository} can't be downloaded ({type(error).__name__}); put "
            f"it under $LEVELFIELD_DATA/{file.set}/, from {file.url}"
        ) from error
    return Path(found)
