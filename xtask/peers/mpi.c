/* Measures an MPI library through its own C interface: mpiexec -n RANKS mpi SECONDS LIMIT CALL:BYTES.. */
#include "measure.h"
#include <mpi.h>

static int *counts, *displs;

static int peer_variants(const char *call) {
    (void)call;
    return 1;
}

static void peer_prepare(size_t each) {
    for (int rank = 0; rank < peer_size; rank++) {
        counts[rank] = (int)each;
        displs[rank] = (int)each * rank;
    }
}

static void peer_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void peer_sum(double *send, double *recv, size_t count) {
    MPI_Allreduce(send, recv, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void peer_max(double *send, double *recv, size_t count) {
    MPI_Allreduce(send, recv, (int)count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void peer_broadcast(void *buffer, size_t bytes) { MPI_Bcast(buffer, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void peer_allgatherv(unsigned char *send, size_t each, unsigned char *recv) {
    MPI_Allgatherv(send, (int)each, MPI_BYTE, recv, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
}

static void peer_abort(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peer_size);
    counts = (int *)memory((size_t)peer_size * sizeof(int));
    displs = (int *)memory((size_t)peer_size * sizeof(int));
    measure_all(argc, argv);
    free(counts);
    free(displs);
    MPI_Finalize();
    return 0;
}
