"""Control by words: instructions and examples before the text, on any causal model or server."""
