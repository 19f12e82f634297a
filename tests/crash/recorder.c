/* Records every change that a process makes to the files under one folder, in order, with its bytes.
 *
 * Loaded by LD_PRELOAD. MULTICLAW_RECORD_DIR is the folder, MULTICLAW_RECORD_LOG the file to write to. A record is
 *     uint8 operation, uint32 length of the path, uint64 offset, uint64 length of the data, path, data
 * in the machine's byte order. What fails is not recorded, but for syncs: with MULTICLAW_FAIL_SYNC_EVERY=N each Nth one
 * is not made, and fails with EIO. The operations are those of tests/crash/recording.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, SYNC, UNLINK, RENAME, SYNC_FAILED };
#define FILES_MAX 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[FILES_MAX];
static const char *folder;
static int record_fd = -1;
static unsigned long fail_every, syncs;

static void put(const void *data, size_t length) {
    const char *at = data;
    while (length > 0) {
        ssize_t done = syscall(SYS_write, record_fd, at, length);
        if (done < 0) {
            if (errno == EINTR) continue;
            abort(); /* a recording with a hole proves nothing */
        }
        at += done;
        length -= (size_t)done;
    }
}

static void begin(void) {
    if (record_fd >= 0) return;
    folder = getenv("MULTICLAW_RECORD_DIR");
    const char *log = getenv("MULTICLAW_RECORD_LOG");
    if (folder == NULL || log == NULL) abort();
    const char *every = getenv("MULTICLAW_FAIL_SYNC_EVERY");
    if (every != NULL) fail_every = strtoul(every, NULL, 10);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    record_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900); /* out of the way of small numbers */
    syscall(SYS_close, fd);
    if (record_fd < 0) abort();
}

static void record(uint8_t operation, const char *path, uint64_t offset, const void *data, uint64_t length) {
    uint32_t path_length = (uint32_t)strlen(path);
    put(&operation, sizeof operation);
    put(&path_length, sizeof path_length);
    put(&offset, sizeof offset);
    put(&length, sizeof length);
    put(path, path_length);
    if (data != NULL) put(data, length);
}

static int inside(const char *path) {
    begin();
    return strncmp(path, folder, strlen(folder)) == 0;
}

static const char *path_of(int fd) { return fd >= 0 && fd < FILES_MAX ? paths[fd] : NULL; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SAVING_ERRNO(statement) do { int saved = errno; statement; errno = saved; } while (0)

static void opened(int fd, const char *path, int flags, int existed) {
    if (fd < 0 || fd >= FILES_MAX) return;
    pthread_mutex_lock(&lock);
    free(paths[fd]);
    paths[fd] = inside(path) ? strdup(path) : NULL;
    if (paths[fd] != NULL && !existed) record(CREATE, path, 0, NULL, 0);
    if (paths[fd] != NULL && existed && (flags & O_TRUNC)) record(TRUNCATE, path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
}

#define OPEN(name, declaration, path_argument, call)                                  \
    int name declaration {                                                            \
        mode_t mode = 0;                                                              \
        if (flags & (O_CREAT | O_TMPFILE)) {                                          \
            va_list rest;                                                             \
            va_start(rest, flags);                                                    \
            mode = va_arg(rest, mode_t);                                              \
            va_end(rest);                                                             \
        }                                                                             \
        int existed = access(path_argument, F_OK) == 0;                               \
        int fd = call;                                                                \
        SAVING_ERRNO(opened(fd, path_argument, flags, existed));                      \
        return fd;                                                                    \
    }

OPEN(open, (const char *path, int flags, ...), path, REAL(open)(path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), path, REAL(open64)(path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), path, REAL(openat)(at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), path, REAL(openat64)(at, path, flags, mode))

int close(int fd) {
    if (path_of(fd) != NULL) {
        pthread_mutex_lock(&lock);
        free(paths[fd]);
        paths[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return REAL(close)(fd);
}

#define RECORDED(fd, call, operation, offset, data, length)                           \
    do {                                                                              \
        const char *path = path_of(fd);                                               \
        if (path == NULL) return call;                                                \
        pthread_mutex_lock(&lock);                                                    \
        __typeof__(call) result = call;                                               \
        if (result >= 0) SAVING_ERRNO(record(operation, path, offset, data, length)); \
        pthread_mutex_unlock(&lock);                                                  \
        return result;                                                                \
    } while (0)

static uint64_t position(int fd) {
    struct stat status;
    if ((fcntl(fd, F_GETFL) & O_APPEND) && fstat(fd, &status) == 0) return (uint64_t)status.st_size;
    return (uint64_t)lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t length) {
    if (path_of(fd) == NULL) return REAL(write)(fd, data, length);
    uint64_t offset = position(fd);
    RECORDED(fd, REAL(write)(fd, data, length), WRITE, offset, data, (uint64_t)result);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    RECORDED(fd, REAL(pwrite)(fd, data, length, offset), WRITE, (uint64_t)offset, data, (uint64_t)result);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    RECORDED(fd, REAL(pwrite64)(fd, data, length, offset), WRITE, (uint64_t)offset, data, (uint64_t)result);
}

int ftruncate(int fd, off_t length) {
    RECORDED(fd, REAL(ftruncate)(fd, length), TRUNCATE, (uint64_t)length, NULL, 0);
}

int ftruncate64(int fd, off64_t length) {
    RECORDED(fd, REAL(ftruncate64)(fd, length), TRUNCATE, (uint64_t)length, NULL, 0);
}

/* One that fails leaves the page cache as it is: every reader sees what was written, and no later sync writes it. */
static int sync_file(int fd, int (*real)(int)) {
    const char *path = path_of(fd);
    if (path == NULL) return real(fd);
    pthread_mutex_lock(&lock);
    int fails = fail_every > 0 && ++syncs % fail_every == 0;
    int result = fails ? -1 : real(fd);
    if (fails || result == 0) SAVING_ERRNO(record(fails ? SYNC_FAILED : SYNC, path, 0, NULL, 0));
    pthread_mutex_unlock(&lock);
    if (fails) errno = EIO;
    return result;
}

int fsync(int fd) { return sync_file(fd, REAL(fsync)); }

int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }

int unlink(const char *path) {
    int result = REAL(unlink)(path);
    if (result == 0) {
        pthread_mutex_lock(&lock);
        if (inside(path)) SAVING_ERRNO(record(UNLINK, path, 0, NULL, 0));
        pthread_mutex_unlock(&lock);
    }
    return result;
}

int rename(const char *from, const char *to) {
    int result = REAL(rename)(from, to);
    if (result == 0) {
        pthread_mutex_lock(&lock);
        if (inside(from)) SAVING_ERRNO(record(RENAME, from, 0, to, strlen(to)));
        pthread_mutex_unlock(&lock);
    }
    return result;
}

/* What would change a file unseen ends the run. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (path_of(fd) != NULL) abort();
    return REAL(writev)(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    if (path_of(fd) != NULL) abort();
    return REAL(pwritev)(fd, parts, count, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    if (path_of(fd) != NULL) abort();
    return REAL(fallocate)(fd, mode, offset, length);
}
