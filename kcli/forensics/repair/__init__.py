"""TODO-ROOM kcli.forensics.repair"""
