/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for work. A call offers its tasks, and begins with them itself: a worker that has time takes part, and
 * the call waits for no other. So a worker that another program keeps from running holds up at most the task that it has,
 * and concurrent and nested calls share the workers. No worker begins while as many threads run tasks as there are
 * processors.
 *
 * A worker that has nothing to do looks out for more for a short while, since calls come one after the other, then sleeps.
 * Workers start when a call could use them, and end with the process, or with the library if that is unloaded.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity() */
#endif

#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST = 1024,      /* threads */
	AWAKE_NS = 1000000 /* how long a worker looks out for work, and a call for the last workers, before sleeping */
};

/* What a call offers. Only next and joined change without the lock, and joined only where it is said. */
struct job {
	mxfp_task *task;
	void *argument;
	size_t n;
	_Atomic size_t next;     /* the first task that nobody has taken */
	unsigned wanted;         /* workers that may still join */
	atomic_uint joined;      /* workers that have; raised under the lock, and read by the call without */
	unsigned long process;   /* pool.process then */
	struct job *before;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t offered, finished; /* for sleeping workers; for calls */
	struct job *last;                 /* of the jobs on offer */
	unsigned workers, asleep, waiting, busy; /* busy: calls and workers that run tasks */
	atomic_ulong offers;              /* jobs so far */
	unsigned long process;            /* how many forks lie between the first process and this */
	atomic_bool ends;
	pthread_t threads[MOST];
} pool = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.offered = PTHREAD_COND_INITIALIZER,
	.finished = PTHREAD_COND_INITIALIZER,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned processors;

static void before_fork(void)
{
	pthread_mutex_lock(&pool.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&pool.lock);
}

/* A child has the thread that forked and no other. */
static void in_child(void)
{
	pthread_mutex_init(&pool.lock, NULL);
	pthread_cond_init(&pool.offered, NULL);
	pthread_cond_init(&pool.finished, NULL);
	pool.last = NULL;
	pool.workers = pool.asleep = pool.waiting = pool.busy = 0;
	pool.process++;
}

static void start(void)
{
	long n = 0;

#ifdef __linux__
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		n = CPU_COUNT(&set);
#endif
	if (n <= 0)
		n = sysconf(_SC_NPROCESSORS_ONLN);
	processors = n < 1 ? 1 : n > MOST ? MOST : (unsigned)n;
	if (pthread_atfork(before_fork, after_fork, in_child) != 0)
		processors = 1; /* without memory for three pointers */
}

unsigned mxfp_processors(void)
{
	pthread_once(&once, start);
	return processors;
}

/* Runs a task that nobody has taken; false: there is none. */
static bool run_task(struct job *job)
{
	const size_t i = atomic_fetch_add(&job->next, 1);

	if (i < job->n)
		job->task(job->argument, i);
	return i < job->n;
}

static void run_tasks(struct job *job)
{
	while (run_task(job))
		;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A job that a worker may join; NULL: none. */
static struct job *find_job(void)
{
	struct job *job = pool.busy < processors ? pool.last : NULL;

	while (job != NULL && (job->wanted == 0 || job->next >= job->n))
		job = job->before;
	return job;
}

/* Helps with a job; locked before and after. Once nobody has joined it, the job may be gone. */
static void help(struct job *job)
{
	job->wanted--;
	job->joined++;
	pool.busy++;
	pthread_mutex_unlock(&pool.lock);
	while (!pool.ends && run_task(job))
		;
	pthread_mutex_lock(&pool.lock);
	pool.busy--;
	if (atomic_fetch_sub(&job->joined, 1) == 1 && pool.waiting != 0)
		pthread_cond_broadcast(&pool.finished);
}

/* Waits for an offer that comes after `seen` of them; locked before and after. */
static void wait_for_offer(unsigned long seen)
{
	const int64_t end = now() + AWAKE_NS;

	pthread_mutex_unlock(&pool.lock);
	while (pool.offers == seen && now() < end)
		sched_yield();
	pthread_mutex_lock(&pool.lock);
	while (pool.offers == seen && !pool.ends) {
		pool.asleep++;
		pthread_cond_wait(&pool.offered, &pool.lock);
		pool.asleep--;
	}
}

static void *work(void *unused)
{
	pthread_mutex_lock(&pool.lock);
	while (!pool.ends) {
		const unsigned long seen = pool.offers;
		struct job *job = find_job();

		if (job != NULL)
			help(job);
		else
			wait_for_offer(seen);
	}
	pthread_mutex_unlock(&pool.lock);
	return unused;
}

/* Starts workers until there are n, or the system refuses; locked. Signals are for the program's own threads, but for those by
   which a task of the caller's ends: a fault that is blocked ends the process past its handler. */
static void start_workers(unsigned n)
{
	static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
	sigset_t all, before;

	if (pool.workers >= n || pool.ends)
		return;
	sigfillset(&all);
	for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (pool.workers < n && pthread_create(&pool.threads[pool.workers], NULL, work, NULL) == 0)
		pool.workers++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void offer(struct job *job)
{
	pthread_mutex_lock(&pool.lock);
	start_workers(job->wanted);
	job->process = pool.process;
	job->before = pool.last;
	pool.last = job;
	pool.busy++;
	pool.offers++;
	if (pool.asleep > job->wanted)
		for (unsigned i = 0; i < job->wanted; i++)
			pthread_cond_signal(&pool.offered);
	else if (pool.asleep != 0)
		pthread_cond_broadcast(&pool.offered);
	pthread_mutex_unlock(&pool.lock);
}

/* Withdraws a job, all of whose tasks are taken, and waits for those that workers have. */
static void withdraw(struct job *job)
{
	struct job **at = &pool.last;

	pthread_mutex_lock(&pool.lock);
	if (job->process != pool.process) { /* forked by a task: nobody else is left */
		pthread_mutex_unlock(&pool.lock);
		return;
	}
	while (*at != job)
		at = &(*at)->before;
	*at = job->before;
	pool.busy--;
	pthread_mutex_unlock(&pool.lock);
	const int64_t end = now() + AWAKE_NS;
	while (job->joined != 0 && now() < end)
		sched_yield();
	if (job->joined == 0)
		return;
	pthread_mutex_lock(&pool.lock);
	pool.waiting++;
	while (job->joined != 0)
		pthread_cond_wait(&pool.finished, &pool.lock);
	pool.waiting--;
	pthread_mutex_unlock(&pool.lock);
}

void mxfp_pool_run(unsigned threads, size_t n, mxfp_task *task, void *argument)
{
	const unsigned most = mxfp_processors();
	struct job job = {.task = task, .argument = argument, .n = n};

	if (threads == 0 || threads > most)
		threads = most;
	if (n < threads)
		threads = (unsigned)n;
	if (threads <= 1) {
		run_tasks(&job);
		return;
	}
	job.wanted = threads - 1;
	offer(&job);
	run_tasks(&job);
	withdraw(&job);
}

/* Code must not be unloaded under a thread. */
__attribute__((destructor)) static void stop(void)
{
	pthread_mutex_lock(&pool.lock);
	const unsigned workers = pool.workers;
	pool.ends = true;
	pool.workers = 0;
	pool.offers++;
	pthread_cond_broadcast(&pool.offered);
	pthread_mutex_unlock(&pool.lock);
	for (unsigned i = 0; i < workers; i++)
		if (!pthread_equal(pool.threads[i], pthread_self()))
			pthread_join(pool.threads[i], NULL);
}
