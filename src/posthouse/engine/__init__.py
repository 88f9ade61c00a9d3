"""The queue manager of [MS-MQDMPR]: no sockets, files or clocks. Calls in, decisions out."""
