"""`posthouse queue`: queues, who may use them, what goes between machines."""
