"""A study's folder on disk: answers, texts and scores, in files that people can open."""
