"""The JSON API: types of requests and answers, and the table of routes."""
