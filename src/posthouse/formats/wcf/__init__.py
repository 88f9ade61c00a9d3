"""WCF's netMsmqBinding: framing of [MC-NMF], text and binary envelopes, shown as XML."""
