"""Generative CDM from end to end: Algorithm 1 of Lu et al. 2024, section 3.4.1, as one run.

A file says what the corpus is, which two infillers there are or how they are trained, how negatives
are made and how the discriminator is trained; `docs/cdm.md` has its keys. Everything lies in one
folder: `amateur`, `expert` (unless models are named), `negatives.jsonl` and `discriminator`. Each
stage resumes where it stopped, and a finished one is left as it is: run the command again after a
kill until it is done.
"""
