"""PPLM: gradients on the states that a base has of a text."""
