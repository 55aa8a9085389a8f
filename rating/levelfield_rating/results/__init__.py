"""What raters said, in numbers: of raters, negative samples, samples, systems and agreement."""
