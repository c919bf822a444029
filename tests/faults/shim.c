/* Faults below Python and SQLite. Loaded by LD_PRELOAD, it stands between a process and the C library's calls that
 * change files. Until `faults_begin` it only skips fsync. Then it counts the calls on files below one directory, writes
 * down what they changed, and at the n-th call of one kind does what it was asked to do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* The same order as in shim_control.py. */
enum kind { CREATE, OPEN, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, MKDIR, KINDS };
enum action { NONE, FAIL, FAIL_ON, DIE_BEFORE, DIE_AFTER, TEAR_DIE, TEAR_FAIL, SHORT };

static struct {
    int armed, log, kind, action, error;
    long nth, seen[KINDS];
    unsigned long reach;      /* FAIL_ON: the kinds that fail from the n-th call on, one bit each */
    int broken, next_fails;   /* FAIL_ON has begun; the write after a torn one fails */
    char prefix[PATH_MAX];
} faults;

#define REAL(type, name, ...)                                       \
    static type (*real)(__VA_ARGS__);                               \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* The log: what was called ('k') and what it changed. Everything that power loss needs to know is in it. */
struct __attribute__((packed)) record {
    char what;
    uint8_t kind;
    uint64_t inode;
    int64_t offset;
    uint32_t length, path_length, target_length;
};

static void put(const void *bytes, size_t length) {
    for (const char *at = bytes; length > 0;) {
        ssize_t written = syscall(SYS_write, faults.log, at, length);
        if (written <= 0) _exit(99);
        at += written, length -= (size_t)written;
    }
}

static void note(char what, int kind, uint64_t inode, int64_t offset, const void *data, size_t length,
                 const char *path, const char *target) {
    int before = errno;
    struct record record = {what, (uint8_t)kind, inode, offset, (uint32_t)length,
                            path ? (uint32_t)strlen(path) : 0, target ? (uint32_t)strlen(target) : 0};
    put(&record, sizeof record);
    if (path) put(path, record.path_length);
    if (target) put(target, record.target_length);
    if (length) put(data, length);
    errno = before;
}

/* Which file a call is about; 0 where it is none of ours. */
static int below(const char *path) {
    size_t length = strlen(faults.prefix);
    return strncmp(path, faults.prefix, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int path_of(int fd, char *path) {
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int absolute(int directory, const char *given, char *path) {
    char base[PATH_MAX];
    if (given[0] == '/') {
        base[0] = 0;
    } else if (directory == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(directory, base)) {
        return 0;
    }
    return (base[0] ? snprintf(path, PATH_MAX, "%s/%s", base, given) : snprintf(path, PATH_MAX, "%s", given)) < PATH_MAX;
}

static int ours(int directory, const char *given, char *path) {
    return faults.armed && given && absolute(directory, given, path) && below(path);
}

static int fd_is_ours(int fd, char *path) { return faults.armed && path_of(fd, path) && below(path); }

static uint64_t inode_of(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* What happens to this call. FAIL: it is to fail with errno set; DIE_BEFORE has happened when it returns. */
static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int fate(int kind, const char *path) {
    note('k', kind, 0, 0, NULL, 0, path, NULL);
    faults.seen[kind]++;
    if (kind == WRITE && faults.next_fails) {
        faults.next_fails = 0;
        errno = faults.error;
        return FAIL;
    }
    if (faults.broken && (faults.reach >> kind & 1)) {
        errno = faults.error;
        return FAIL;
    }
    if (faults.action == NONE || kind != faults.kind || faults.seen[kind] != faults.nth) return NONE;
    note('!', kind, 0, 0, NULL, 0, path, NULL);
    if (faults.action == DIE_BEFORE) die();
    if (faults.action == FAIL_ON) faults.broken = 1;
    if (faults.action != FAIL && faults.action != FAIL_ON) return faults.action;
    errno = faults.error;
    return FAIL;
}

static void after(int action) {
    if (action == DIE_AFTER || action == TEAR_DIE) die();
}

/* Called through ctypes. */
void faults_begin(const char *prefix, const char *log, int kind, long nth, int action, int error, unsigned long reach) {
    memset(&faults, 0, sizeof faults);
    snprintf(faults.prefix, sizeof faults.prefix, "%s", prefix);
    faults.log = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (faults.log < 0) _exit(99);
    faults.kind = kind, faults.nth = nth, faults.action = action, faults.error = error, faults.reach = reach;
    faults.armed = 1;
}

void faults_end(void) {
    if (faults.armed) syscall(SYS_close, faults.log);
    faults.armed = 0;
}

/* open */
static int open_with(int directory, const char *given, int flags, mode_t mode) {
    REAL(int, "openat64", int, const char *, int, ...);
    char path[PATH_MAX];
    struct stat about;
    if (!ours(directory, given, path)) return real(directory, given, flags, mode);
    int existed = stat(path, &about) == 0, kind = flags & O_CREAT ? CREATE : OPEN, action = fate(kind, path);
    if (action == FAIL) return -1;
    int fd = real(directory, given, flags, mode);
    if (fd >= 0 && !existed) note('c', kind, inode_of(fd), 0, NULL, 0, path, NULL);
    if (fd >= 0 && existed && (flags & O_TRUNC)) note('t', kind, inode_of(fd), 0, NULL, 0, path, NULL);
    after(action);
    return fd;
}

#define WITH_MODE(call)                                                           \
    va_list rest;                                                                 \
    va_start(rest, flags);                                                        \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;     \
    va_end(rest);                                                                 \
    return call
int open(const char *path, int flags, ...) { WITH_MODE(open_with(AT_FDCWD, path, flags, mode)); }
int open64(const char *path, int flags, ...) { WITH_MODE(open_with(AT_FDCWD, path, flags, mode)); }
int openat(int at, const char *path, int flags, ...) { WITH_MODE(open_with(at, path, flags, mode)); }
int openat64(int at, const char *path, int flags, ...) { WITH_MODE(open_with(at, path, flags, mode)); }
int __open_2(const char *path, int flags) { return open_with(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_with(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) { return open_with(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_with(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* write: `at` < 0 means at the file's own position */
static ssize_t write_at(int fd, const void *data, size_t length, off64_t at) {
    REAL(ssize_t, "write", int, const void *, size_t);
    static ssize_t (*real_at)(int, const void *, size_t, off64_t);
    if (!real_at) real_at = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    char path[PATH_MAX];
    if (!fd_is_ours(fd, path)) return at < 0 ? real(fd, data, length) : real_at(fd, data, length, at);
    int action = fate(WRITE, path);
    if (action == FAIL) return -1;
    int torn = action == TEAR_DIE || action == TEAR_FAIL || (action == SHORT && length > 1);
    size_t part = torn ? length / 2 : length;
    ssize_t written = part == 0 ? 0 : at < 0 ? real(fd, data, part) : real_at(fd, data, part, at);
    if (written > 0) {
        off64_t begin = at < 0 ? lseek64(fd, 0, SEEK_CUR) - written : at;
        note('w', WRITE, inode_of(fd), begin, data, (size_t)written, path, NULL);
    }
    after(action);
    if (action == TEAR_FAIL && written == 0) {
        errno = faults.error;
        return -1;
    }
    faults.next_fails = action == TEAR_FAIL;
    return written;
}

ssize_t write(int fd, const void *data, size_t length) { return write_at(fd, data, length, -1); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return write_at(fd, data, length, at); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) { return write_at(fd, data, length, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    char path[PATH_MAX];
    if (!fd_is_ours(fd, path)) return real(fd, parts, count);
    ssize_t total = 0;
    for (int index = 0; index < count; index++) {
        ssize_t written = write_at(fd, parts[index].iov_base, parts[index].iov_len, -1);
        if (written < 0) return total ? total : -1;
        total += written;
        if ((size_t)written < parts[index].iov_len) break;
    }
    return total;
}

/* fsync: the kernel keeps what a killed process wrote, and power loss is computed: nothing needs to reach a disk */
int fsync(int fd) {
    char path[PATH_MAX];
    if (!fd_is_ours(fd, path)) return 0;
    int action = fate(SYNC, path);
    note(action == FAIL ? 'x' : 's', SYNC, inode_of(fd), 0, NULL, 0, path, NULL);
    if (action == FAIL) return -1;
    after(action);
    return 0;
}

int fdatasync(int fd) { return fsync(fd); }

/* names */
static int rename_with(int from, const char *old, int to, const char *new) {
    REAL(int, "renameat", int, const char *, int, const char *);
    char path[PATH_MAX], target[PATH_MAX];
    if (!ours(from, old, path) || !ours(to, new, target)) return real(from, old, to, new);
    int action = fate(RENAME, target);
    if (action == FAIL) return -1;
    int outcome = real(from, old, to, new);
    if (outcome == 0) note('r', RENAME, 0, 0, NULL, 0, path, target);
    after(action);
    return outcome;
}

int rename(const char *old, const char *new) { return rename_with(AT_FDCWD, old, AT_FDCWD, new); }
int renameat(int from, const char *old, int to, const char *new) { return rename_with(from, old, to, new); }

static int unlink_with(int directory, const char *given, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    char path[PATH_MAX];
    if (!ours(directory, given, path)) return real(directory, given, flags);
    int action = fate(UNLINK, path);
    if (action == FAIL) return -1;
    int outcome = real(directory, given, flags);
    if (outcome == 0) note('u', UNLINK, 0, 0, NULL, 0, path, NULL);
    after(action);
    return outcome;
}

int unlink(const char *path) { return unlink_with(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { return unlink_with(directory, path, flags); }
int rmdir(const char *path) { return unlink_with(AT_FDCWD, path, AT_REMOVEDIR); }

static int truncate_to(int fd, off64_t length) {
    REAL(int, "ftruncate64", int, off64_t);
    char path[PATH_MAX];
    if (!fd_is_ours(fd, path)) return real(fd, length);
    int action = fate(TRUNCATE, path);
    if (action == FAIL) return -1;
    int outcome = real(fd, length);
    if (outcome == 0) note('t', TRUNCATE, inode_of(fd), length, NULL, 0, path, NULL);
    after(action);
    return outcome;
}

int ftruncate(int fd, off_t length) { return truncate_to(fd, length); }
int ftruncate64(int fd, off64_t length) { return truncate_to(fd, length); }

static int mkdir_with(int directory, const char *given, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    char path[PATH_MAX];
    struct stat about;
    if (!ours(directory, given, path)) return real(directory, given, mode);
    int action = fate(MKDIR, path);
    if (action == FAIL) return -1;
    int outcome = real(directory, given, mode);
    if (outcome == 0 && stat(path, &about) == 0) note('m', MKDIR, (uint64_t)about.st_ino, 0, NULL, 0, path, NULL);
    after(action);
    return outcome;
}

int mkdir(const char *path, mode_t mode) { return mkdir_with(AT_FDCWD, path, mode); }
int mkdirat(int directory, const char *path, mode_t mode) { return mkdir_with(directory, path, mode); }
