"""[MS-NRBF]: what BinaryFormatter wrote, read as data. No type is loaded and nothing is run."""
