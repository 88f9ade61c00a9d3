"""Spark as a queue server: jobs that run pipelines."""
