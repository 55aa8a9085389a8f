"""Level-playing-field studies: the same requests to every system, measured the same way."""
