"""TODO-ROOM kcli.forensics"""
