"""`posthouse demo`: shows the program at work and checks its books."""
