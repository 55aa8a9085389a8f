"""The rating app: people's judgement of generated text, kept so that nothing is lost."""
