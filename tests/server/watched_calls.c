/* Preloaded into a server: writes down what it flushes and renames, and holds flushes back or lets them fail.

   A line per call, when it has returned: its name, the file's size when it began, the path. While
   the file PENSTOCK_HOLD is there no fdatasync returns; while PENSTOCK_FAIL is there each fails. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *line, int size)
{
    const char *log = getenv("PENSTOCK_CALLS");
    int file = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0 || write(file, line, size) != size)
        abort();
    close(file);
}

static void say(const char *call, int descriptor, long long size)
{
    char link[64], path[PATH_MAX], line[PATH_MAX + 128];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    put(line, snprintf(line, sizeof line, "%s %lld %s\n", call, size, path));
}

static long long size_of(int descriptor)
{
    struct stat facts;
    return fstat(descriptor, &facts) ? -1 : (long long)facts.st_size;
}

int fdatasync(int descriptor)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    const char *hold = getenv("PENSTOCK_HOLD");
    long long size = size_of(descriptor);
    while (hold && access(hold, F_OK) == 0)
        usleep(1000);
    const char *fail = getenv("PENSTOCK_FAIL");
    if (fail && access(fail, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    int result = real(descriptor);
    say("fdatasync", descriptor, size);
    return result;
}

int fsync(int descriptor)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    long long size = size_of(descriptor);
    int result = real(descriptor);
    say("fsync", descriptor, size);
    return result;
}

int rename(const char *old, const char *new)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    char line[PATH_MAX + 128];
    int result = real(old, new);
    put(line, snprintf(line, sizeof line, "rename 0 %s\n", new));
    return result;
}
