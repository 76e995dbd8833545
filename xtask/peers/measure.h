/* Measures the collectives of a library the way the example `timings` of comm-factory measures ours.
 *
 * A peer includes this file first, defines the functions declared here and calls measure_all. All is static, so that the
 * compiler sees through the calls and nothing stands between the clock and the library.
 *
 * Arguments: SECONDS LIMIT CALL:BYTES.. with the time to call each row for, and the time after which a row is given up.
 * Nx instead of SECONDS makes exactly N calls of each row and no others but the first, to count instructions.
 * Output of rank 0, a line per row: timing,CALL,BYTES,CALLS,MEDIAN_US,P99_US,SPAN_US
 * start-up as the first row is one barrier and nothing else: whoever started the launcher has the clock.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int peer_rank, peer_size;

/* How many calls to make of each row, if the time does not decide. */
static int exact_calls;

/* If a library has several algorithms, each is measured and the fastest is printed. */
static int peer_variant;
static int peer_variants(const char *call);

/* Prepares calls of allgatherv with this many bytes from each rank; not timed. */
static void peer_prepare(size_t each);
static void peer_barrier(void);
static void peer_sum(double *send, double *recv, size_t count);
static void peer_max(double *send, double *recv, size_t count);
static void peer_broadcast(void *buffer, size_t bytes);
static void peer_allgatherv(unsigned char *send, size_t each, unsigned char *recv);
/* Ends all ranks. */
static void peer_abort(void);

enum { MOST_CALLS = 20000, FEWEST_CALLS = 5, TOLD = 77 };
enum call { BARRIER, ALLREDUCE, BROADCAST, ALLGATHERV, ALLGATHERV_READ, CALLS };
static const char *const call_names[] = {"barrier", "allreduce", "broadcast", "allgatherv", "allgatherv-read"};

/* The last value read, so that the compiler cannot remove the reads. */
static volatile unsigned long long read_sum;

struct row {
    enum call call;
    size_t bytes, count, each;
    double *send, *recv;
    unsigned char *block, *buffer;
};

struct timing {
    int calls;
    double median, p99, span;
};

/* Tells the processor that this is a waiting loop. */
static inline void spin_hint(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Returns microseconds on the clock that all processes of the machine share. */
static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Waits for the next tick of that clock and a jitter of this rank and call, so that all ranks start a call together whatever the library's
 * barrier does; returns the number of the tick. The numbers are those of the example, in tick.rs: nanoseconds. */
static double wait_for_tick(int call) {
    enum { TICK = 25000, SPIN = 5000, JITTER = 1000 };
    double period = TICK * 1e-3 * peer_size;
    double tick = (double)(unsigned long long)((now() + SPIN * 1e-3) / period) + 1;
    unsigned long long bits = ((unsigned long long)peer_rank << 32) + (unsigned long long)call + 1;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    double start = tick * period + (double)((bits ^ (bits >> 31)) % JITTER) * 1e-3;
    for (;;) {
        double left = start - now();
        if (left <= 0) return tick;
        if (left > SPIN * 1e-3) sched_yield();
        else spin_hint();
    }
}

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s\n", peer_rank, what);
    peer_abort();
    exit(1);
}

/* Ends a rank whose row takes too long; its end ends the others. */
static void give_up(int signal) {
    static const char words[] = "the row took longer than its limit\n";
    (void)signal;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(2);
    _exit(1);
}

static void *memory(size_t bytes) {
    void *found = NULL;
    if (posix_memalign(&found, 4096, bytes + 64) != 0) fail("out of memory");
    memset(found, 0, bytes + 64);
    return found;
}

/* Adds up all words of a buffer; ignores an incomplete last word. */
static void read_all(const unsigned char *bytes, size_t length) {
    unsigned long long sum = 0, word;
    for (size_t i = 0; i + sizeof word <= length; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sum += word;
    }
    read_sum = sum;
}

static inline void make(struct row *row) {
    switch (row->call) {
    case BARRIER: peer_barrier(); break;
    case ALLREDUCE: peer_sum(row->send, row->recv, row->count); break;
    case BROADCAST: peer_broadcast(row->buffer, row->bytes); break;
    case ALLGATHERV: peer_allgatherv(row->block, row->each, row->buffer); break;
    case ALLGATHERV_READ:
        peer_allgatherv(row->block, row->each, row->buffer);
        read_all(row->buffer, row->each * (size_t)peer_size);
        break;
    case CALLS: break;
    }
}

static void open_row(struct row *row) {
    row->count = row->call == ALLREDUCE ? row->bytes / sizeof(double) : 0;
    row->each = row->call == ALLGATHERV || row->call == ALLGATHERV_READ ? row->bytes / (size_t)peer_size : 0;
    row->send = (double *)memory(row->count * sizeof(double));
    row->recv = (double *)memory(row->count * sizeof(double));
    row->block = (unsigned char *)memory(row->each);
    row->buffer = (unsigned char *)memory(row->call == BROADCAST ? row->bytes : row->each * (size_t)peer_size);
    for (size_t i = 0; i < row->count; i++) row->send[i] = (double)(peer_rank + 1) + (double)(i % 8);
    memset(row->block, peer_rank % 251 + 1, row->each);
    if (row->call == BROADCAST && peer_rank == 0) memset(row->buffer, TOLD, row->bytes);
    peer_prepare(row->each);
}

static void close_row(struct row *row) {
    free(row->send);
    free(row->recv);
    free(row->block);
    free(row->buffer);
}

static void check(const struct row *row) {
    double ranks = peer_size;
    for (size_t i = 0; i < row->count; i++)
        if (row->recv[i] != ranks * (ranks + 1) / 2 + ranks * (double)(i % 8)) fail("allreduce is wrong");
    for (size_t i = 0; row->call == BROADCAST && i < row->bytes; i++)
        if (row->buffer[i] != TOLD) fail("broadcast is wrong");
    for (size_t i = 0; i < row->each * (size_t)peer_size; i++)
        if (row->buffer[i] != i / row->each % 251 + 1) fail("allgatherv is wrong");
}

/* Calls barriers until the time is over, by the clock of rank 0. */
static void settle(double seconds) {
    double start = now();
    for (int over = 0; !over;) {
        for (int i = 0; i < 10; i++) peer_barrier();
        over = (now() - start) * 1e-6 >= seconds;
        peer_broadcast(&over, sizeof over);
    }
}

/* Agrees on how many calls fill the time, by the clock of rank 0. */
static int calls_for(struct row *row, double seconds) {
    if (exact_calls > 0) return exact_calls;
    double start = now();
    int made = 0, told = 0;
    while (told == 0) {
        int turn = made < 2 || row->bytes > 1 << 20 ? 1 : 10;
        for (int i = 0; i < turn; i++) {
            if (row->call == BROADCAST) {
                peer_barrier();
                wait_for_tick(0);
            }
            make(row);
        }
        made += turn;
        double spent = (now() - start) * 1e-6;
        if (made >= 2 && (spent >= seconds * 0.2 || made >= 2000)) {
            double wanted = seconds * made / (spent > 1e-9 ? spent : 1e-9);
            told = wanted < FEWEST_CALLS ? FEWEST_CALLS : wanted > MOST_CALLS ? MOST_CALLS : (int)wanted;
        }
        peer_broadcast(&told, sizeof told);
    }
    return told;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Moves the times of the calls that all ranks started at the same tick to the front; returns their number, or that of all calls if there are
too few. */
static int keep_same_ticks(double *ticks, double *times, int calls) {
    size_t bytes = (size_t)calls * sizeof(double);
    double *last = (double *)memory(bytes), *first = (double *)memory(bytes);
    peer_max(ticks, last, (size_t)calls);
    for (int i = 0; i < calls; i++) ticks[i] = -ticks[i];
    peer_max(ticks, first, (size_t)calls);
    int kept = 0;
    for (int i = 0; i < calls; i++) kept += last[i] == -first[i];
    if (kept >= FEWEST_CALLS) {
        kept = 0;
        for (int i = 0; i < calls; i++)
            if (last[i] == -first[i]) times[kept++] = times[i];
    } else {
        kept = calls;
    }
    free(last);
    free(first);
    return kept;
}

static struct timing measure(struct row *row, double seconds) {
    struct timing timing = {0, 0, 0, 0};
    make(row);
    check(row);
    int calls = timing.calls = calls_for(row, seconds);
    size_t bytes = (size_t)calls * sizeof(double);
    double *entries = (double *)memory(bytes), *returns = (double *)memory(bytes);
    double *own = (double *)memory(bytes), *all = (double *)memory(bytes);
    double *ticks = (double *)memory(bytes);
    peer_barrier();
    for (int i = 0; i < calls; i++) {
        if (row->call == BROADCAST) peer_barrier();
        /* A count of instructions should not include those of waiting. */
        if (row->call == BROADCAST && exact_calls == 0) ticks[i] = wait_for_tick(i);
        entries[i] = now();
        make(row);
        returns[i] = now();
    }
    for (int i = 0; i < calls; i++) own[i] = returns[i] - entries[i];
    peer_max(own, all, (size_t)calls);
    qsort(all, (size_t)calls, sizeof(double), compare);
    timing.median = all[calls / 2];
    timing.p99 = all[(size_t)calls * 99 / 100];
    if (row->call == BROADCAST) {
        peer_max(returns, all, (size_t)calls);
        for (int i = 0; i < calls; i++) all[i] -= entries[i];
        int kept = keep_same_ticks(ticks, all, calls);
        qsort(all, (size_t)kept, sizeof(double), compare);
        timing.span = all[kept / 2];
    }
    free(ticks);
    free(entries);
    free(returns);
    free(own);
    free(all);
    return timing;
}

static void measure_row(const char *text, double seconds, unsigned limit) {
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    struct row row;
    memset(&row, 0, sizeof row);
    int known = -1;
    for (int i = 0; i < CALLS; i++)
        if (strlen(call_names[i]) == length && strncmp(text, call_names[i], length) == 0) known = i;
    if (known < 0) fail("there is no such call");
    row.call = (enum call)known;
    row.bytes = colon ? strtoull(colon + 1, NULL, 10) : 0;
    alarm(limit);
    open_row(&row);
    struct timing best = {0, 0, 0, 0};
    for (peer_variant = 0; peer_variant < peer_variants(call_names[row.call == ALLGATHERV_READ ? ALLGATHERV : row.call]); peer_variant++) {
        struct timing timing = measure(&row, seconds);
        if (best.calls == 0 || timing.median < best.median) best = timing;
    }
    peer_variant = 0;
    close_row(&row);
    alarm(0);
    if (peer_rank != 0) return;
    printf("timing,%s,%zu,%d,%.3f,%.3f,", call_names[row.call], row.bytes, best.calls, best.median, best.p99);
    if (row.call == BROADCAST) printf("%.3f", best.span);
    printf("\n");
    fflush(stdout);
}

static void measure_all(int argc, char **argv) {
    if (argc < 3) fail("arguments: SECONDS LIMIT CALL:BYTES..");
    char *end;
    double seconds = strtod(argv[1], &end);
    if (*end == 'x') exact_calls = (int)seconds;
    unsigned limit = (unsigned)atoi(argv[2]);
    if (argc > 3 && strncmp(argv[3], "start-up", 8) == 0) {
        peer_barrier();
        return;
    }
    /* Otherwise the first row would include the time in which the system spreads the new ranks over its processors. */
    signal(SIGALRM, give_up);
    alarm(limit);
    if (exact_calls == 0) settle(seconds);
    for (int i = 3; i < argc; i++) measure_row(argv[i], seconds, limit);
    peer_barrier();
}
