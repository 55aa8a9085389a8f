"""Words, stems, sentences and word lists."""
