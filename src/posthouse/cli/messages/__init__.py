"""`posthouse message`: finds, moves, copies, exports, explains messages."""
