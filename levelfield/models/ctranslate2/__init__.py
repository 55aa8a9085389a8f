"""Encoder-decoders and causal models in CTranslate2, which is faster than PyTorch on a CPU."""
