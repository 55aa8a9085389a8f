"""Words, stems and sentences of texts: plain functions, without models and without PyTorch."""
