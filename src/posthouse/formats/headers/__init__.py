"""Headers that message buses put into the extension and the label of their messages."""
