"""SRMP messages as bytes: envelopes, MIME parts, receipts ([MC-MQSRM] 2.2)."""
