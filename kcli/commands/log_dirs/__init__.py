"""TODO-ROOM kcli.commands.log_dirs"""
