"""Files beside the weights that papers published and models need."""

from __future__ import annotations

from levelfield.io.fetch import Published

IWF_PEGASUS = Published(
    set="ctrleval",
    repository="thu-coai/CTRLEval",
    commit="33639daedc376bd322f976f3feee5690a1de669e",
    path="iwf_full.txt",
    sha256="d88a4385a6a8471ce62b318bde7fee07093093555705aa1b46f429f7a2067728",
    bytes=1_957_274,
)

GPT2_VOCABULARY = Published(
    set="gpt2-bpe",
    repository="PlusLabNLP/DEAM",
    commit="97b9549f7953dea4ab2f60cd2643e11c8216ab15",
    path="coh_models/vocab.json",
    sha256="ed19656ea1707df69134c4af35c8ceda2cc9860bf2c3495026153a133670ab5e",
    bytes=798_293,
)
GPT2_MERGES = Published(
    set="gpt2-bpe",
    repository="PlusLabNLP/DEAM",
    commit="97b9549f7953dea4ab2f60cd2643e11c8216ab15",
    path="coh_models/merges.txt",
    sha256="fe36cab26d4f4421ed725e10a2e9ddb7f799449c603a96e7f29b5a3c82a95862",
    bytes=456_356,
)
