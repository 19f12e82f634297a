/* Stands between a process and the disk, loaded by LD_PRELOAD. MULTICLAW_DISK_DIR is the folder whose files it watches.
 *
 * It records, where MULTICLAW_DISK_RECORD names a file to write to: every change of those files, in order, with its
 * bytes. A record is
 *     uint8 operation, uint32 length of the path, uint64 offset, uint64 length of the data, path, data
 * in the machine's byte order. What fails is not recorded, but for syncs: with MULTICLAW_DISK_FAIL_SYNC_EVERY=N each
 * Nth one is not made, and fails with EIO. The operations are those of tests/crash/recording.py.
 *
 * It makes operations fail or hang while the process runs, as the page says that MULTICLAW_DISK_FAULT names, a file of
 * sizeof(struct fault) bytes that a test writes to (tests/support/failing_disks.py).
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
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, SYNC, UNLINK, RENAME, SYNC_FAILED, LINK, MAKE_FOLDER, REMOVE_FOLDER };
#define FILES_MAX 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[FILES_MAX];
static const char *folder;
static int record_fd = -1;
static unsigned long fail_every, syncs;

enum { FAIL_WRITE = 1, FAIL_SYNC = 2, FAIL_OPEN = 4, FAIL_READ = 8, FAIL_TRUNCATE = 16, HALF_WRITE = 32 };
struct fault {
    uint32_t operations; /* of the above */
    int32_t error;       /* errno; 0: they hang until the page says otherwise */
    uint32_t hits;       /* operations that it has met */
    char suffix[52];     /* of the files that it is for; empty: all */
};
static volatile struct fault *fault;

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
    static int begun;
    if (begun) return;
    begun = 1;
    folder = getenv("MULTICLAW_DISK_DIR");
    if (folder == NULL) abort();
    const char *every = getenv("MULTICLAW_DISK_FAIL_SYNC_EVERY");
    if (every != NULL) fail_every = strtoul(every, NULL, 10);
    const char *log = getenv("MULTICLAW_DISK_RECORD");
    if (log != NULL) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        record_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900); /* out of the way of small numbers */
        syscall(SYS_close, fd);
        if (record_fd < 0) abort();
    }
    const char *page = getenv("MULTICLAW_DISK_FAULT");
    if (page != NULL) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, page, O_RDWR | O_CLOEXEC);
        fault = mmap(NULL, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
        if (fault == MAP_FAILED) abort();
    }
}

/* Whether `operation` on a watched file is to fail; errno says how. */
static int fails(uint32_t operation, const char *path) {
    if (fault == NULL) return 0;
    size_t length = strlen((const char *)fault->suffix), whole = strlen(path);
    if (length > whole || strcmp(path + whole - length, (const char *)fault->suffix) != 0) return 0;
    if (!(fault->operations & operation)) return 0;
    __atomic_add_fetch(&fault->hits, 1, __ATOMIC_SEQ_CST);
    while ((fault->operations & operation) && fault->error == 0 && operation != HALF_WRITE) usleep(5000);
    errno = fault->error;
    return (fault->operations & operation) != 0;
}

static void record(uint8_t operation, const char *path, uint64_t offset, const void *data, uint64_t length) {
    if (record_fd < 0) return;
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
        int writes = (flags & O_ACCMODE) != O_RDONLY;                                 \
        if (inside(path_argument) && fails(writes ? FAIL_OPEN : 0, path_argument)) return -1; \
        int existed = access(path_argument, F_OK) == 0;                               \
        int fd = call;                                                                \
        SAVING_ERRNO(opened(fd, path_argument, flags, existed));                      \
        return fd;                                                                    \
    }

OPEN(open, (const char *path, int flags, ...), path, REAL(open)(path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), path, REAL(open64)(path, flags, mode))
/* Relative to an open folder nothing of ours is made, and only folders are opened. */
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

/* How much of a write is taken: all of it, half, or none with errno set. */
static ssize_t taken(int fd, size_t length) {
    const char *path = path_of(fd);
    if (path == NULL) return (ssize_t)length;
    if (fails(FAIL_WRITE, path)) return -1;
    return (ssize_t)(length > 1 && fails(HALF_WRITE, path) ? length / 2 : length);
}

ssize_t write(int fd, const void *data, size_t length) {
    ssize_t take = taken(fd, length);
    if (take < 0) return -1;
    if (path_of(fd) == NULL) return REAL(write)(fd, data, length);
    uint64_t offset = position(fd);
    RECORDED(fd, REAL(write)(fd, data, (size_t)take), WRITE, offset, data, (uint64_t)result);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    ssize_t take = taken(fd, length);
    if (take < 0) return -1;
    RECORDED(fd, REAL(pwrite)(fd, data, (size_t)take, offset), WRITE, (uint64_t)offset, data, (uint64_t)result);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    ssize_t take = taken(fd, length);
    if (take < 0) return -1;
    RECORDED(fd, REAL(pwrite64)(fd, data, (size_t)take, offset), WRITE, (uint64_t)offset, data, (uint64_t)result);
}

ssize_t read(int fd, void *data, size_t length) {
    if (path_of(fd) != NULL && fails(FAIL_READ, path_of(fd))) return -1;
    return REAL(read)(fd, data, length);
}

ssize_t pread(int fd, void *data, size_t length, off_t offset) {
    if (path_of(fd) != NULL && fails(FAIL_READ, path_of(fd))) return -1;
    return REAL(pread)(fd, data, length, offset);
}

ssize_t pread64(int fd, void *data, size_t length, off64_t offset) {
    if (path_of(fd) != NULL && fails(FAIL_READ, path_of(fd))) return -1;
    return REAL(pread64)(fd, data, length, offset);
}

int ftruncate(int fd, off_t length) {
    if (path_of(fd) != NULL && fails(FAIL_TRUNCATE, path_of(fd))) return -1;
    RECORDED(fd, REAL(ftruncate)(fd, length), TRUNCATE, (uint64_t)length, NULL, 0);
}

int ftruncate64(int fd, off64_t length) {
    if (path_of(fd) != NULL && fails(FAIL_TRUNCATE, path_of(fd))) return -1;
    RECORDED(fd, REAL(ftruncate64)(fd, length), TRUNCATE, (uint64_t)length, NULL, 0);
}

/* One that fails leaves the page cache as it is: every reader sees what was written, and no later sync writes it. */
static int sync_file(int fd, int (*real)(int)) {
    const char *path = path_of(fd);
    if (path == NULL) return real(fd);
    if (fails(FAIL_SYNC, path)) return -1;
    pthread_mutex_lock(&lock);
    int failed = fail_every > 0 && ++syncs % fail_every == 0;
    int result = failed ? -1 : real(fd);
    if (failed || result == 0) SAVING_ERRNO(record(failed ? SYNC_FAILED : SYNC, path, 0, NULL, 0));
    pthread_mutex_unlock(&lock);
    if (failed) errno = EIO;
    return result;
}

int fsync(int fd) { return sync_file(fd, REAL(fsync)); }

int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }

/* The whole path of one that may be relative to an open folder; what is longer than a path can be ends the run. */
static const char *whole(int at, const char *path, char *buffer) {
    if (path[0] == '/' || at == AT_FDCWD) return path;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = readlink(link, buffer, PATH_MAX);
    if (length < 0 || (size_t)length + strlen(path) + 2 > PATH_MAX) abort();
    buffer[length] = '/';
    strcpy(buffer + length + 1, path);
    return buffer;
}

/* A change of names: what is recorded is that of `path`, with `target` where it has one. */
#define RENAMED(call, operation, path, target)                                                    \
    do {                                                                                          \
        begin();                                                                                  \
        pthread_mutex_lock(&lock);                                                                \
        int result = call;                                                                        \
        if (result == 0 && inside(path))                                                          \
            SAVING_ERRNO(record(operation, path, 0, target, strlen(target)));                     \
        pthread_mutex_unlock(&lock);                                                              \
        return result;                                                                            \
    } while (0)

int unlink(const char *path) { RENAMED(REAL(unlink)(path), UNLINK, path, ""); }

int rmdir(const char *path) { RENAMED(REAL(rmdir)(path), REMOVE_FOLDER, path, ""); }

int unlinkat(int at, const char *name, int flags) {
    char buffer[PATH_MAX];
    const char *path = whole(at, name, buffer);
    RENAMED(REAL(unlinkat)(at, name, flags), flags & AT_REMOVEDIR ? REMOVE_FOLDER : UNLINK, path, "");
}

int mkdir(const char *path, mode_t mode) { RENAMED(REAL(mkdir)(path, mode), MAKE_FOLDER, path, ""); }

int rename(const char *from, const char *to) { RENAMED(REAL(rename)(from, to), RENAME, from, to); }

int link(const char *from, const char *to) { RENAMED(REAL(link)(from, to), LINK, from, to); }

int linkat(int from_at, const char *from_name, int to_at, const char *to_name, int flags) {
    char from_buffer[PATH_MAX], to_buffer[PATH_MAX];
    const char *from = whole(from_at, from_name, from_buffer), *to = whole(to_at, to_name, to_buffer);
    RENAMED(REAL(linkat)(from_at, from_name, to_at, to_name, flags), LINK, from, to);
}

/* What would change a file or a name unseen ends the run. */
int renameat(int from_at, const char *from, int to_at, const char *to) {
    char buffer[PATH_MAX];
    if (inside(whole(from_at, from, buffer))) abort();
    return REAL(renameat)(from_at, from, to_at, to);
}

int mkdirat(int at, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    if (inside(whole(at, path, buffer))) abort();
    return REAL(mkdirat)(at, path, mode);
}

int symlink(const char *target, const char *path) {
    if (inside(path)) abort();
    return REAL(symlink)(target, path);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t length) {
    if (path_of(to) != NULL) abort();
    return REAL(sendfile)(to, from, offset, length);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t length) {
    if (path_of(to) != NULL) abort();
    return REAL(sendfile64)(to, from, offset, length);
}

ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t length, unsigned flags) {
    if (path_of(to) != NULL) abort();
    return REAL(copy_file_range)(from, from_offset, to, to_offset, length, flags);
}

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
