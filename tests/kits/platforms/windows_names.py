"""Names that Linux has and Windows does not, as in the "Availability" lines of the library reference of Python 3.11."""

_WORDS = """
_curses _posixsubprocess crypt curses fcntl grp nis pty pwd readline resource spwd syslog termios tty uvloop
"""
MISSING_MODULES = frozenset(_WORDS.split())
_WORDS = """
chown chroot confstr confstr_names copy_file_range ctermid EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE environb eventfd
eventfd_read eventfd_write EX_CANTCREAT EX_CONFIG EX_DATAERR EX_IOERR EX_NOHOST EX_NOINPUT EX_NOPERM EX_NOUSER
EX_OSERR EX_OSFILE EX_PROTOCOL EX_SOFTWARE EX_TEMPFAIL EX_UNAVAILABLE EX_USAGE F_LOCK F_TEST F_TLOCK F_ULOCK fchdir
fchmod fchown fdatasync fork forkpty fpathconf fstatvfs fwalk get_blocking getegid getenvb geteuid getgid getgrouplist
getgroups getloadavg getpgid getpgrp getpriority getrandom getresgid getresuid getsid getuid getxattr grantpt
GRND_NONBLOCK GRND_RANDOM initgroups killpg lchown listxattr lockf login_tty major makedev memfd_create minor mkfifo
mknod nice O_ASYNC O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC O_LARGEFILE O_NDELAY O_NOATIME O_NOCTTY O_NOFOLLOW
O_NONBLOCK O_PATH O_RSYNC O_SYNC O_TMPFILE openpty P_ALL P_PGID P_PID P_PIDFD pathconf pathconf_names pidfd_open pipe2
POSIX_FADV_DONTNEED posix_fadvise posix_fallocate posix_openpt posix_spawn POSIX_SPAWN_CLOSE POSIX_SPAWN_DUP2
POSIX_SPAWN_OPEN posix_spawnp pread preadv PRIO_PGRP PRIO_PROCESS PRIO_USER ptsname pwrite pwritev readv
register_at_fork removexattr RTLD_GLOBAL RTLD_LAZY RTLD_LOCAL RTLD_NOW SCHED_BATCH SCHED_FIFO sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler SCHED_IDLE SCHED_OTHER sched_param SCHED_RR
sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler sched_yield SEEK_DATA SEEK_HOLE sendfile
set_blocking setegid seteuid setgid setgroups setns setpgid setpriority setregid setresgid setresuid setreuid setsid
setuid setxattr spawnlp spawnlpe spawnvp spawnvpe splice ST_NOSUID ST_RDONLY statvfs statvfs_result sync sysconf
sysconf_names tcgetpgrp tcsetpgrp timerfd_create ttyname uname uname_result unlockpt unshare wait wait3 wait4 waitid
waitid_result WCONTINUED WCOREDUMP WEXITED WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WNOWAIT
writev WSTOPPED WSTOPSIG WTERMSIG WUNTRACED XATTR_CREATE XATTR_REPLACE XATTR_SIZE_MAX
"""
MISSING_IN_OS = frozenset(_WORDS.split())
SIGNALS = {
    "CTRL_C_EVENT": 0, "CTRL_BREAK_EVENT": 1, "SIGINT": 2, "SIGILL": 4, "SIGABRT": 6, "SIGFPE": 8, "SIGSEGV": 11,
    "SIGTERM": 15, "SIGBREAK": 21,
}  # fmt: skip
"""The signals of Windows. SIGBREAK is SIGTTIN of Linux. SIGABRT is 22 on Windows, but C code of Linux raises 6."""
_WORDS = """
default_int_handler getsignal Handlers NSIG raise_signal set_wakeup_fd SIG_DFL SIG_IGN signal strsignal valid_signals
"""
NAMES_IN_SIGNAL = frozenset(_WORDS.split())
_WORDS = """
AF_ALG AF_CAN AF_NETLINK AF_PACKET AF_UNIX AF_VSOCK CMSG_LEN CMSG_SPACE if_nameindex MSG_CMSG_CLOEXEC MSG_DONTWAIT
MSG_NOSIGNAL recv_fds SCM_CREDENTIALS SCM_RIGHTS send_fds sethostname SO_BINDTODEVICE SO_DOMAIN SO_MARK SO_PASSCRED
SO_PEERCRED SO_PEERSEC SO_PRIORITY SO_PROTOCOL SO_REUSEPORT SOCK_CLOEXEC SOCK_NONBLOCK TCP_CORK TCP_DEFER_ACCEPT
TCP_INFO TCP_QUICKACK TCP_USER_TIMEOUT
"""
MISSING_IN_SOCKET = frozenset(_WORDS.split())
MISSING_IN_SELECT = frozenset({"devpoll", "epoll", "kqueue", "PIPE_BUF", "poll"})
_WORDS = """
AbstractChildWatcher FastChildWatcher get_child_watcher MultiLoopChildWatcher open_unix_connection PidfdChildWatcher
SafeChildWatcher set_child_watcher start_unix_server ThreadedChildWatcher
"""
MISSING_IN_ASYNCIO = frozenset(_WORDS.split())
