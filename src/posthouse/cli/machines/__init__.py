"""`posthouse scan` and `posthouse exporter`: MSMQ machines, Windows or not, from outside."""
