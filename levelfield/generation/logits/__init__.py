"""Control at the logits of the next token: formulas over what models read."""
