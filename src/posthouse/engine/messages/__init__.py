"""Messages: sent, admitted, read, waited for, moved, expired, and what follows their end."""
