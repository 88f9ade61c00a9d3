"""The UserMessage packet: layout, headers, reading, writing ([MS-MQMQ] 2.2.19, 2.2.20)."""
