"""FUDGE: a discriminator of what a text will be when it is complete."""
