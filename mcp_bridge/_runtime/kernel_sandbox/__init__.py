"""Restrictions of a process by the Linux kernel: Landlock and seccomp.

The files import only the standard library and each other, because the script of the supervisor imports them, too.
"""
