"""The queue manager of [MS-MQDMPR]: no sockets, no files, no clocks. Calls come in, decisions go out."""
