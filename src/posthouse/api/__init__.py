"""The JSON types of the API: what requests carry and answers hold."""
