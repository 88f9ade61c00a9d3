"""Messages over HTTP and HTTPS: the SOAP Reliable Messaging Protocol ([MC-MQSRM])."""
