"""NetWare queue services and the bindery over NCP."""
