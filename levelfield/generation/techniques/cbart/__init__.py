"""CBART: an editor that mends and lengthens a draft of keywords."""
