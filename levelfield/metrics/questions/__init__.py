"""Questions with the answers yes and no, put to an encoder-decoder model.

Zhong et al. 2022, "Towards a Unified Multi-Dimensional Evaluator for Text Generation" (UniEval),
section 3.1: the question and the text are the source, and

    P(yes) = p(yes | source) / (p(yes | source) + p(no | source)) = 1 / (1 + exp(z_no − z_yes)),

z the logits of the first tokens of the two words at the decoder's first step. Two words that begin
with the same token are compared as wholes: p(word) is then the product over its tokens and the end
token. In [0, 1]; higher is more of a yes, and above 0.5 yes is the likelier answer.
"""

from __future__ import annotations

from levelfield.metrics.questions.metrics import (
    CustomQuestion,
    QuestionsCoherence,
    QuestionsEngagingness,
    QuestionsGroundedness,
    QuestionsNaturalness,
    QuestionsUnderstandability,
)

__all__ = [
    "CustomQuestion",
    "QuestionsCoherence",
    "QuestionsEngagingness",
    "QuestionsGroundedness",
    "QuestionsNaturalness",
    "QuestionsUnderstandability",
]
