"""`posthouse decode`: packets and bodies, field by field."""
