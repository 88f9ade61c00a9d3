"""`posthouse decode` of capture files: sessions of all protocols as transcripts."""
