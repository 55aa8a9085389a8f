"""The passes in which an editor writes: the encoder says where, the decoder says what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

import torch

from levelfield.generation.contract import Decoding
from levelfield.generation.sampling import Draw
from levelfield.generation.techniques.cbart.network import Action, Editor, EditorTokens
from levelfield.models.torch.draws import Exponentials, penalised, possible

Forbidden = Literal["next", "copy"]
"""What becomes of a token whose likeliest action is not permitted."""


class Part(IntEnum):
    """What a token is part of, which says what may become of it."""

    NEW = 0
    """What the editor wrote: copied, replaced, or another token goes before it."""
    FIRST = 1
    """The first token of a keyword, and the end of the text: copied, or a token goes before it."""
    LOCKED = 2
    """The rest of a keyword, the beginning of the text and the prompt: copied."""


PERMITTED = torch.tensor([[True, True, True], [True, False, True], [True, False, False]])
"""(parts, actions) what may become of a token."""


@dataclass(frozen=True)
class EditedText:
    """A text between two passes.

    Attributes:
        ids: its tokens, special ones included.
        parts: of which part each is.
    """

    ids: tuple[int, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(
        cls, prompt: Sequence[int], keywords: Sequence[Sequence[int]], tokens: EditorTokens
    ) -> EditedText:
        """Returns the prompt and the keywords in their order, and nothing else.

        Args:
            prompt: its tokens.
            keywords: the tokens of each, at least one.
        """
        ids = [*tokens.begin, *prompt]
        parts = [Part.LOCKED] * len(ids)
        for group in (*keywords, tokens.end):
            ids += group
            parts += [Part.FIRST, *[Part.LOCKED] * (len(group) - 1)]
        return cls(tuple(ids), tuple(parts))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def new(self) -> int:
        """How many tokens the editor has written."""
        return self.parts.count(Part.NEW)

    def actions(
        self, logits: torch.Tensor, room: int, forbidden: Forbidden = "next"
    ) -> list[Action]:
        """What becomes of each token: the likeliest of what may become of it; or, with `copy`, the
        likeliest of all, which is a copy where it may not be.

        Of more insertions than there is room for the likeliest take place; where another was to be,
        the token is replaced if it may be, and else copied.

        Args:
            logits: (tokens, 3).
            room: tokens that the text may grow by.
        """
        permitted = PERMITTED[torch.tensor(self.parts)]
        log_p = logits.double().cpu().masked_fill(~permitted, -torch.inf).log_softmax(-1)
        chosen = log_p.argmax(-1)
        if forbidden == "copy":
            first = logits.argmax(-1, keepdim=True).cpu()
            chosen = torch.where(permitted.gather(1, first), first, Action.COPY)[:, 0]
        actions = [Action(action) for action in chosen.tolist()]
        inserts = [i for i, action in enumerate(actions) if action is Action.INSERT]
        if len(inserts) > room:
            likely = log_p[:, Action.INSERT].tolist()
            inserts.sort(key=lambda i: -likely[i])  # stable: of equals the first
            for i in inserts[max(0, room) :]:
                may = self.parts[i] is Part.NEW
                actions[i] = Action.REPLACE if may else Action.COPY
        return actions

    def opened(self, actions: Sequence[Action], mask: int) -> EditedText:
        """Returns the text with a mask for each token that is to be replaced or inserted."""
        ids: list[int] = []
        parts: list[Part] = []
        for id, part, action in zip(self.ids, self.parts, actions, strict=True):
            if action is not Action.COPY:
                ids.append(mask)
                parts.append(Part.NEW)
            if action is not Action.REPLACE:
                ids.append(id)
                parts.append(part)
        return EditedText(tuple(ids), tuple(parts))

    def masks(self, mask: int) -> list[int]:
        """Where its masks are; a mask that is spelled out in a keyword is none."""
        tokens = zip(self.ids, self.parts, strict=True)
        return [i for i, (id, part) in enumerate(tokens) if id == mask and part is Part.NEW]

    def follows_fixed(self, place: int, begin: int = 0) -> bool:
        """Whether the token before a place was not written by the editor; so is the beginning,
        unless the text begins with this many special tokens, which any token may follow."""
        return place == 0 or (place != begin and self.parts[place - 1] is not Part.NEW)

    def filled(self, places: Sequence[int], ids: Sequence[int]) -> EditedText:
        """Returns the text with other tokens at these places."""
        all_ids = list(self.ids)
        for place, id in zip(places, ids, strict=True):
            all_ids[place] = id
        return replace(self, ids=tuple(all_ids))

    def runs(self) -> list[list[int]]:
        """Returns the tokens that the editor wrote before each keyword, and after the last one."""
        runs: list[list[int]] = [[]]
        for id, part in zip(self.ids, self.parts, strict=True):
            if part is Part.NEW:
                runs[-1].append(id)
            elif part is Part.FIRST:
                runs.append([])
        return runs[:-1]  # nothing follows the end


@dataclass
class Refined:
    """A text after its last pass.

    Attributes:
        draft: the text.
        passes: how many passes it took, the one that changed nothing included.
        rows: how often the encoder and the decoder read it: at most twice a pass.
        settled: whether the last pass changed nothing.
    """

    draft: EditedText
    passes: int = 0
    rows: int = 0
    settled: bool = False


Rows = tuple[torch.Tensor, torch.Tensor]
"""States of the encoder (rows, tokens, d), and which tokens are not padding (rows, tokens)."""


def refine(
    editor: Editor,
    drafts: Sequence[EditedText],
    names: Sequence[str],
    decoding: Decoding,
    seed: int,
    *,
    passes: int,
    penalty: float,
    eagerness: float = 0.0,
    forbidden: Forbidden = "next",
    begin: int = 0,
    stops: bool = False,
    nucleus: tuple[int, float] = (0, 1.0),
) -> list[Refined]:
    """Edits texts until a pass leaves them as they are.

    Args:
        drafts: prompts and keywords.
        names: of the texts; seed and name decide what is drawn.
        decoding: how tokens are chosen; `max_new_tokens` is how many the editor may add.
        passes: at most.
        penalty: repetition penalty, on top of the decoding's.
        eagerness: added to the logits of insertions.
        forbidden: as of `EditedText.actions`.
        begin: as of `EditedText.follows_fixed`.
        stops: whether gaps may be filled with `EditorTokens.stops`.
        nucleus: `top_k` and `top_p` of what the decoding leaves.
    """
    texts = [Refined(draft) for draft in drafts]
    fill = _filler(editor, decoding, penalty, begin, stops, nucleus)
    live = list(range(len(texts)))
    with torch.inference_mode():
        for step in range(passes):
            (states, mask), opened = _opened(
                editor, [texts[i].draft for i in live], decoding, eagerness, forbidden
            )
            going = []
            for i, draft in zip(live, opened, strict=True):
                texts[i].passes, texts[i].rows = step + 1, texts[i].rows + 1
                texts[i].settled = draft is None
                going.append(draft is not None)
            to_fill = [draft for draft in opened if draft is not None]
            if not to_fill:
                break
            live = [i for i, goes in zip(live, going, strict=True) if goes]
            rows = torch.tensor(going, device=states.device)
            keys = [f"{names[i]} {step}" for i in live]
            noise = None if decoding.greedy else _noise(editor, seed, keys, to_fill)
            filled = fill((states[rows], mask[rows]), to_fill, Draw(noise))
            for i, draft in zip(live, filled, strict=True):
                texts[i].rows += 1
                texts[i].settled = draft == texts[i].draft
                texts[i].draft = draft
            live = [i for i in live if not texts[i].settled]
            if not live:
                break
    return texts


def _opened(
    editor: Editor,
    drafts: Sequence[EditedText],
    decoding: Decoding,
    eagerness: float,
    forbidden: Forbidden,
) -> tuple[Rows, list[EditedText | None]]:
    """Returns the texts with masks where something is to be written; None where nothing is."""
    ids, mask = editor.padded([draft.ids for draft in drafts])
    states, logits = editor.network.encode(ids, mask)
    logits[..., Action.INSERT] += eagerness
    opened: list[EditedText | None] = []
    for draft, row in zip(drafts, logits, strict=True):
        room = min(decoding.max_new_tokens - draft.new, editor.limit - len(draft))
        actions = draft.actions(row[: len(draft)], room, forbidden)
        changes = any(action is not Action.COPY for action in actions)
        opened.append(draft.opened(actions, editor.tokens.mask) if changes else None)
    return (states, mask), opened


def _noise(
    editor: Editor, seed: int, keys: Sequence[str], drafts: Sequence[EditedText]
) -> Exponentials:
    """Noise for each mask, with a stream of its own: none depends on the batch."""
    counts = [len(draft.masks(editor.tokens.mask)) for draft in drafts]
    names = [f"{key} {n}" for key, count in zip(keys, counts, strict=True) for n in range(count)]
    return Exponentials(seed, names, editor.tokens.vocabulary_size)


Filler = Callable[[Rows, Sequence[EditedText], Draw], list[EditedText]]


def _filler(
    editor: Editor,
    decoding: Decoding,
    penalty: float,
    begin: int,
    stops: bool,
    nucleus: tuple[int, float],
) -> Filler:
    """What fills the masks of texts, all at once."""
    tokens = editor.tokens
    excluded = tokens.never if stops else tokens.never | tokens.stops
    never = torch.from_numpy(excluded).to(editor.device)
    goes_on = torch.from_numpy(tokens.goes_on).to(editor.device)

    def fill(encoded: Rows, drafts: Sequence[EditedText], choice: Draw) -> list[EditedText]:
        inputs, _ = editor.padded([[tokens.decoder_start, *draft.ids[:-1]] for draft in drafts])
        ids, real = editor.padded([draft.ids for draft in drafts])
        places = [draft.masks(tokens.mask) for draft in drafts]
        is_gap = torch.zeros_like(ids, dtype=torch.bool)
        for row, gaps in enumerate(places):
            is_gap[row, gaps] = True
        logits = editor.network.decode(*encoded, inputs, is_gap).float()
        row_of = is_gap.nonzero()[:, 0]
        fixed = torch.tensor(
            [
                draft.follows_fixed(place, begin)
                for draft, gaps in zip(drafts, places, strict=True)
                for place in gaps
            ],
            device=editor.device,
        )
        # a keyword stays a whole word
        scores = logits.masked_fill(never | (fixed[:, None] & goes_on), -torch.inf)
        theta = penalty * decoding.repetition_penalty
        scores = penalised(scores, ids[row_of], real[row_of], theta) / decoding.temperature
        kept = possible(scores, decoding.top_k, decoding.top_p)
        kept &= possible(scores.masked_fill(~kept, -torch.inf), *nucleus)
        chosen = choice(scores.masked_fill(~kept, -torch.inf)).tolist()
        filled = []
        for draft, gaps in zip(drafts, places, strict=True):
            filled.append(draft.filled(gaps, chosen[: len(gaps)]))
            chosen = chosen[len(gaps) :]
        return filled

    return fill
