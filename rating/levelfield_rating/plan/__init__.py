"""From a study file and its samples to a frozen study: read, checked, planned."""
