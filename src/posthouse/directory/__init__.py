"""Machines, sites, links, public queues, users: objects, events and routes between machines."""
