"""Style judges: small classifiers of texts, from labelled texts to a model folder.

Section 3.2.2 of the thesis has TextCNN (Kim 2014) and fastText (Joulin et al. 2017). A linear head
on an encoder's states is the third architecture, and the cheapest that has seen more language than
its own training texts; the fourth fine-tunes the encoder, too.
"""
