"""Chat models on any server that supports OpenAI's chat-completions protocol."""
