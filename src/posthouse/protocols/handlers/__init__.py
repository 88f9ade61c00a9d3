"""The calls of the JSON API without a transport: one handler for each route."""
