"""Programs on several devices: from one program over global shapes to the program of each device.

What the user divides by hand (`shard_map`, `pmap`) and what every device does alike is understood;
anything else that works on divided arrays is refused by name.
"""
