"""Infillers: small models that fill one gap in a text ("segment insertion", Lu et al. 2024, 3.4.1).

One example is a window of a document with one segment taken out. Two fifths of the segments are one
or two whole sentences, one fifth are up to 20 tokens anywhere, and two fifths reach from a place to
the end or from the beginning to a place: the gaps of CTRLEval's coherence, of CDM's manipulation,
and of CTRLEval's consistency. Encoder-decoders read `left <extra_id_0> right` and write
`<extra_id_0> segment </s>`, where the segment and its end are learnt. Causal models read
`<|fim_prefix|> left <|fim_suffix|> right <|fim_middle|> segment end` (Bavarian et al. 2022) and
learn all of it but the markers.
"""
