"""Small classifiers of our own: TextCNN, fastText, heads on an encoder."""
