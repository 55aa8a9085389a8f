"""A text that is being edited: its tokens, what may become of each, and one pass of edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch

from levelfield.generation.techniques.cbart.editor import Action, EditorTokens


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
        """The prompt and the keywords in their order, and nothing else.

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

    def actions(self, logits: torch.Tensor, room: int) -> list[Action]:
        """What becomes of each token: the likeliest of what may become of it.

        Of more insertions than there is room for the likeliest take place; where another was to be,
        the token is replaced if it may be, and else copied.

        Args:
            logits: (tokens, 3).
            room: tokens that the text may grow by.
        """
        permitted = PERMITTED[torch.tensor(self.parts)]
        log_p = logits.double().cpu().masked_fill(~permitted, -torch.inf).log_softmax(-1)
        actions = [Action(action) for action in log_p.argmax(-1).tolist()]
        inserts = [i for i, action in enumerate(actions) if action is Action.INSERT]
        if len(inserts) > room:
            likely = log_p[:, Action.INSERT].tolist()
            inserts.sort(key=lambda i: -likely[i])  # stable: of equals the first
            for i in inserts[max(0, room) :]:
                may = self.parts[i] is Part.NEW
                actions[i] = Action.REPLACE if may else Action.COPY
        return actions

    def opened(self, actions: Sequence[Action], mask: int) -> EditedText:
        """The text with a mask for each token that is to be replaced or inserted."""
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
        both = zip(self.ids, self.parts, strict=True)
        return [i for i, (id, part) in enumerate(both) if id == mask and part is Part.NEW]

    def follows_fixed(self, place: int) -> bool:
        """Whether the token before a place was not written by the editor; so is the beginning."""
        return place == 0 or self.parts[place - 1] is not Part.NEW

    def filled(self, places: Sequence[int], ids: Sequence[int]) -> EditedText:
        """The text with other tokens at these places."""
        all_ids = list(self.ids)
        for place, id in zip(places, ids, strict=True):
            all_ids[place] = id
        return replace(self, ids=tuple(all_ids))

    def runs(self) -> list[list[int]]:
        """The tokens that the editor wrote before each keyword, and behind the last one."""
        runs: list[list[int]] = [[]]
        for id, part in zip(self.ids, self.parts, strict=True):
            if part is Part.NEW:
                runs[-1].append(id)
            elif part is Part.FIRST:
                runs.append([])
        return runs[:-1]  # nothing is behind the end
