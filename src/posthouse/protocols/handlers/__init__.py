"""The calls of the API without a transport: one handler for each route."""
