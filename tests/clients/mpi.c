/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An MPI program that compares what it gets: messages of many sizes, collectives, one-sided access.
 * mpi [GATE]: with a named pipe GATE, it says "all well", and ends when somebody writes to that.
 * mpi GATE two-sided: without one-sided access. mpi -: messages for ever.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	LARGEST = 1 << 20,
	ROUNDS = 5,
	SLOTS = 64,
	COUNTS = 100
};

static int me, ranks;

static void must(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "mpi: rank %d of %d: wrong: %s\n", me, ranks, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(int from, int round, size_t at)
{
	return (unsigned char)(from * 31 + round * 7 + at * 13 + (at >> 8));
}

static void fill(unsigned char *buffer, size_t size, int from, int round)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = pattern(from, round, i);
}

static int same(const unsigned char *buffer, size_t size, int from, int round)
{
	for (size_t i = 0; i < size; i++)
		if (buffer[i] != pattern(from, round, i))
			return 0;
	return 1;
}

/* Each rank sends to the next and receives from the one before: all sizes, and one byte beside. */
static void point_to_point(void)
{
	unsigned char *out = malloc(LARGEST + 1), *in = malloc(LARGEST + 1);
	int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;

	must(out && in, "memory");
	for (int size = 1; size <= LARGEST; size *= 4) {
		for (int round = 0; round < ROUNDS; round++) {
			int bytes = size + round % 2, got;
			MPI_Request request[2];
			MPI_Status status[2];

			fill(out, (size_t)bytes, me, round);
			memset(in, 0xee, (size_t)bytes);
			MPI_Irecv(in, bytes, MPI_BYTE, before, round, MPI_COMM_WORLD, &request[0]);
			MPI_Isend(out, bytes, MPI_BYTE, next, round, MPI_COMM_WORLD, &request[1]);
			MPI_Waitall(2, request, status);
			MPI_Get_count(&status[0], MPI_BYTE, &got);
			must(got == bytes && same(in, (size_t)bytes, before, round), "a message");
		}
	}
	free(out);
	free(in);
}

/* Rank 0 sends to any rank, which answers; then messages that come before anybody waits for them.
 */
static void ping_and_unexpected(void)
{
	int sum = 0;

	for (int rank = 1; rank < ranks; rank++) {
		for (int i = 0; i < COUNTS; i++) {
			int value = rank * 1000 + i;

			if (me == 0) {
				MPI_Send(&value, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
				MPI_Recv(&value, 1, MPI_INT, rank, 2, MPI_COMM_WORLD,
					 MPI_STATUS_IGNORE);
				must(value == rank * 1000 + i + 1, "an answer");
			} else if (me == rank) {
				MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD,
					 MPI_STATUS_IGNORE);
				value++;
				MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
			}
		}
	}
	if (me)
		for (int i = 0; i < COUNTS; i++)
			MPI_Send(&i, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; !me && i < COUNTS * (ranks - 1); i++) {
		int value;

		MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		sum += value;
	}
	must(me || sum == (ranks - 1) * COUNTS * (COUNTS - 1) / 2, "messages of anybody");
}

static void collectives(void)
{
	enum {
		N = 5000
	};
	long in[N], out[N];
	int all[256];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < N; i++)
			in[i] = (long)(me + 1) * (i + round);
		MPI_Allreduce(in, out, N, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < N; i++)
			must(out[i] == (long)ranks * (ranks + 1) / 2 * (i + round), "allreduce");
		MPI_Bcast(in, N, MPI_LONG, round % ranks, MPI_COMM_WORLD);
		for (int i = 0; i < N; i++)
			must(in[i] == (long)(round % ranks + 1) * (i + round), "broadcast");
	}
	MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		must(all[i] == i, "allgather");
}

/* A window of all ranks: put to the next one, get from it; all add to a counter of rank 0's. */
static void one_sided(void)
{
	long *memory, back[SLOTS], mine[SLOTS], one = 1, old, seen = -1;
	int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
	MPI_Win window;

	MPI_Win_allocate((SLOTS + 1) * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &memory, &window);
	memset(memory, 0, (SLOTS + 1) * sizeof(long));
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < SLOTS; i++)
		mine[i] = me * 1000 + i;
	MPI_Win_fence(0, window);
	MPI_Put(mine, SLOTS, MPI_LONG, next, 0, SLOTS, MPI_LONG, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < SLOTS; i++)
		must(memory[i] == before * 1000 + i, "put");
	MPI_Get(back, SLOTS, MPI_LONG, next, 0, SLOTS, MPI_LONG, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < SLOTS; i++)
		must(back[i] == mine[i], "get");
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < COUNTS; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, SLOTS, MPI_SUM, window);
		MPI_Win_flush(0, window);
		must(old > seen && old < (long)ranks * COUNTS, "fetch_and_op");
		seen = old;
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	MPI_Get(&old, 1, MPI_LONG, 0, SLOTS, 1, MPI_LONG, window);
	MPI_Win_unlock(0, window);
	must(old == (long)ranks * COUNTS, "the counter");
	MPI_Win_free(&window);
}

/* Whoever reads our counters does it now. */
static void wait_at(const char *gate)
{
	int fd = open(gate, O_RDONLY);

	must(fd >= 0, gate);
	close(fd);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	must(ranks > 1 && ranks <= 256, "the number of ranks");
	do {
		point_to_point();
	} while (argc > 1 && !strcmp(argv[1], "-"));
	ping_and_unexpected();
	collectives();
	if (argc < 3)
		one_sided();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me) {
		printf("mpi: all well, %d ranks\n", ranks);
		fflush(stdout);
		if (argc > 1)
			wait_at(argv[1]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
