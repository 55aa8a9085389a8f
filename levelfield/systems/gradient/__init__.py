"""Techniques that go up or down a gradient: PPLM, and what it shares with others of its kind."""
