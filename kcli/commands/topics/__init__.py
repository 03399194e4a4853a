"""TODO-ROOM kcli.commands.topics"""
