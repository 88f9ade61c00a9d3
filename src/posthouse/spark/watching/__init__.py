"""Queues that are watched: rules over what is seen in time, and alarms. Needs no Spark."""
