"""`posthouse migrate`: the queues and messages of another machine are taken over."""
