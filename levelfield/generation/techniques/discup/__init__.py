"""DisCup: soft prompts, distilled from a discriminator."""
