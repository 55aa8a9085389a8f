"""Constrained beam search: likely texts of the base that have every keyword."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Control
from levelfield.generation.contract import Answer, Decoding, Request, check_requests
from levelfield.generation.sampling import Continuation
from levelfield.generation.technique import LocalTechnique, Prompted
from levelfield.generation.techniques.beam.beams import BeamSearch, search_all
from levelfield.generation.techniques.beam.keyword_states import (
    KeywordState,
    Order,
    keyword_problem,
    wanted_keywords,
)


@dataclass(frozen=True, kw_only=True)
class ConstrainedBeam(LocalTechnique):
    """The text x of at most T tokens that has all keywords and the largest Σ log p(x_t) / |x|^γ, as
    far as a beam search finds it.

    The beams are shared out among texts that lack equally many tokens of their keywords, so that
    those that have met more do not lose to those that have met none; each text may go on with any
    likely token or with the next token of a keyword. Post and Vilar (2018), "Fast Lexically
    Constrained Decoding with Dynamic Beam Allocation for Neural Machine Translation", section 3,
    after the grid of Hokamp and Liu (2017), "Lexically Constrained Decoding for Sequence Generation
    Using Grid Beam Search".

    Controls keywords, every one of which is in the continuation as a whole word or phrase. Nothing
    is drawn: every seed gives the same text. Of the decoding, `max_new_tokens` and
    `repetition_penalty` apply; temperature, `top_k`, `top_p` and `greedy` do not.

    Raises:
        UserError: before the first text, keywords that do not fit the budget.
    """

    name: ClassVar[str] = "constrained-beam"
    beams: int = option(16, "Number of texts kept at each step.", least=1)
    order: Order = option(
        "any", "Order of the keywords in the text: any, or given, as the request has them."
    )
    length_penalty: float = option(
        1.0,
        "Exponent γ of the length: 1 is the mean log-probability of a token, 0 the sum; more "
        "prefers longer texts.",
        least=0,
    )
    no_repeat: int = option(
        3,
        "Length of runs of tokens that no text has twice, the prompt included; tokens that a "
        "keyword needs are exempt. 0 lets texts repeat.",
        least=0,
        fits=lambda n: n != 1,
        expected="0, or a whole number from 2 on",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            "beams": str(self.beams),
            "order": self.order,
            "length-penalty": f"{self.length_penalty:g}",
            "no-repeat": str(self.no_repeat),
        }

    def refusal(self, control: Control) -> str:
        if others := sorted(control.keys() - {"keywords"}):
            return f"{self.name}: controls keywords, and not {', '.join(others)}"
        problem = keyword_problem(control)
        return f"{self.name}: {problem}" if problem else ""

    def generate(
        self,
        requests: Sequence[Request],
        *,
        decoding: Decoding = Decoding(),  # noqa: B008
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> Iterator[Answer]:
        """Yields an answer a request as batches end, each with all of its keywords.

        Raises:
            UserError: ids that occur twice, controls that are not supported, or keywords that do
                not fit the budget; all of them named.
        """
        check_requests(self, requests)
        budget = decoding.max_new_tokens
        needs = {r.id: self._state(self._prompted(r, budget)).need(()).tokens for r in requests}
        if over := [f"'{id}' needs {n}" for id, n in needs.items() if n > budget]:
            more = f"; and {len(over) - 5} more" if len(over) > 5 else ""
            raise UserError(
                f"requests: max_new_tokens is {budget}, and the keywords of "
                f"{'; '.join(over[:5])}{more}"
            )
        yield from super().generate(requests, decoding=decoding, seed=seed, progress=progress)

    def log_probs(
        self,
        requests: Sequence[Request],  # noqa: ARG002
        continuations: Sequence[str],  # noqa: ARG002
        *,
        decoding: Decoding = Decoding(),  # noqa: ARG002, B008
        seed: int = 0,  # noqa: ARG002
    ) -> list[Floats]:
        """Nothing: one text has all of the probability.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.name} defines no distribution over texts")

    def _continue(
        self,
        prompted: Sequence[Prompted],
        decoding: Decoding,
        seed: int,  # noqa: ARG002
    ) -> list[Continuation]:
        search = BeamSearch(
            self.beams,
            decoding.max_new_tokens,
            self.length_penalty,
            self.no_repeat,
            decoding.repetition_penalty,
        )
        prompts = [one.ids for one in prompted]
        return search_all(
            self.base, prompts, [self._state(p) for p in prompted], search, self._ends
        )

    def _state(self, one: Prompted) -> KeywordState:
        return KeywordState(self.base, one.ids, wanted_keywords(one.request.control), self.order)
