"""The admin endpoint and the control socket: the API, metrics and one page over HTTP."""
