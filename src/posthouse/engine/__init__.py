"""The queue manager of [MS-MQDMPR], without sockets, files or clocks: calls in, effects out."""
