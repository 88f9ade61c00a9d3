"""Rights, accounts, certificates, keys; signed and encrypted messages."""
