"""Messages over HTTP: streams, receipts, redirection ([MC-MQSRM])."""
