/* Measures Gloo over sockets on loopback: gloo RANKS STORE SECONDS LIMIT CALL:BYTES..
 *
 * Gloo has no launcher: this process is rank 0 and forks the others, which meet in the empty folder STORE and do not
 * outlive it. Its two algorithms for allreduce are both measured; the faster one counts.
 */
#include "measure.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <vector>

using Algorithm = gloo::AllreduceOptions::Algorithm;

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::vector<size_t> counts;

static int peer_variants(const char *call) { return strcmp(call, "allreduce") == 0 ? 2 : 1; }

static void peer_prepare(size_t each) { counts.assign(static_cast<size_t>(peer_size), each); }

static void peer_barrier(void) {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
}

static void reduce(double *send, double *recv, size_t count, gloo::AllreduceOptions::Func function) {
    gloo::AllreduceOptions options(context);
    options.setInput(send, count);
    options.setOutput(recv, count);
    options.setReduceFunction(function);
    options.setAlgorithm(peer_variant == 0 ? Algorithm::RING : Algorithm::BCUBE);
    gloo::allreduce(options);
}

static void peer_sum(double *send, double *recv, size_t count) {
    reduce(send, recv, count, static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<double>));
}

static void peer_max(double *send, double *recv, size_t count) {
    reduce(send, recv, count, static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::max<double>));
}

static void peer_broadcast(void *buffer, size_t bytes) {
    gloo::BroadcastOptions options(context);
    options.setRoot(0);
    options.setOutput(static_cast<char *>(buffer), bytes);
    gloo::broadcast(options);
}

static void peer_allgatherv(unsigned char *send, size_t each, unsigned char *recv) {
    gloo::AllgathervOptions options(context);
    options.setInput(send, each);
    options.setOutput(recv, counts);
    gloo::allgatherv(options);
}

/* A rank that ends closes its sockets, which ends the others. */
static void peer_abort(void) {}

/* Makes this process rank 0 and starts the others. */
static std::vector<pid_t> start(void) {
    std::vector<pid_t> others;
    pid_t first = getpid();
    for (int rank = 1; rank < peer_size; rank++) {
        pid_t other = fork();
        if (other < 0) fail("fork failed");
        if (other == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != first) _exit(1);
            peer_rank = rank;
            return {};
        }
        others.push_back(other);
    }
    return others;
}

static void meet(const char *store, unsigned limit) {
    gloo::transport::tcp::attr address;
    address.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore files(store);
    context = std::make_shared<gloo::rendezvous::Context>(peer_rank, peer_size);
    context->setTimeout(std::chrono::seconds(limit));
    context->connectFullMesh(files, device);
}

int main(int argc, char **argv) {
    peer_size = argc > 1 ? atoi(argv[1]) : 0;
    if (argc < 5 || peer_size < 1) fail("arguments: RANKS STORE SECONDS LIMIT CALL:BYTES..");
    std::vector<pid_t> others = start();
    int code = 0;
    try {
        meet(argv[2], static_cast<unsigned>(atoi(argv[4])));
        measure_all(argc - 2, argv + 2);
    } catch (const std::exception &error) {
        fprintf(stderr, "rank %d: %s\n", peer_rank, error.what());
        code = 1;
    }
    /* Not through destructors: a lost peer makes Gloo's throw. */
    if (code != 0 || peer_rank != 0) _exit(code);
    for (pid_t other : others) {
        int status = 0;
        waitpid(other, &status, 0);
        if (status != 0) code = 1;
    }
    _exit(code);
}
