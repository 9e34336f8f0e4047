"""The crash sweep: one scenario, killed after every durable step and every visible effect, and what must hold then.

house.py     a gateway with a real store and a real engine process
scenario.py  the program that is killed: that gateway, and the people who talk to it
checking.py  reads what is left on disk, and says what was lost, doubled or left running
sweep.py     runs the scenario once for every point, and once more after each

With `--channel` the platform and its people stand outside of what is killed:

platform.py  what a platform must have; telegram.py and discord.py are two
gateway.py   the program that is killed: a gateway with that channel
chats.py     the people who talk to it
outside.py   runs and restarts the gateway, and kills it where the platform says so
"""
