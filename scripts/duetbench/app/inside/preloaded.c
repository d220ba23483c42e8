/*
 * Loaded before libc (LD_PRELOAD) into a program whose instructions are counted.
 *
 * Marks: getpgrp(), which nothing else calls, switches Callgrind's instrumentation on, unless it is
 * on, and sets the counters to zero; getppid() writes them to a dump. Imports before the first mark
 * are ten times as fast as counted ones.
 *
 * Random bytes that are the same in every process. Rust's hash tables draw their seeds with
 * getrandom(), which both its standard library and its crate `getrandom` look up so that it can be
 * replaced. The allocator of a free-threaded CPython draws with syscall(). The sequence continues
 * from call to call, so that a program that draws until two differ comes to an end. Not for secrets.
 *
 * pidfd_open() is absent, as on older kernels: Valgrind lacks it, and asyncio can do without.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* What only observes calls needs no Valgrind. */
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>

pid_t getpgrp(void)
{
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	return (pid_t)syscall(SYS_getpgid, 0);
}

pid_t getppid(void)
{
	CALLGRIND_DUMP_STATS;
	return (pid_t)syscall(SYS_getppid);
}
#endif

static uint64_t state;

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	unsigned char *bytes = buffer;

	(void)flags;
	for (size_t at = 0; at < length; at++) {
		/* Knuth's generator for MMIX; the high bits are its good ones. */
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[at] = (unsigned char)(state >> 56);
	}
	return (ssize_t)length;
}

int getentropy(void *buffer, size_t length)
{
	getrandom(buffer, length, 0);
	return 0;
}

long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long given[6];
	va_list list;

	va_start(list, number);
	for (int at = 0; at < 6; at++) /* as in libc: the kernel ignores surplus ones */
		given[at] = va_arg(list, long);
	va_end(list);
	if (number == SYS_getrandom)
		return getrandom((void *)given[0], (size_t)given[1], 0);
	if (number == SYS_pidfd_open) {
		errno = ENOSYS;
		return -1;
	}
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
