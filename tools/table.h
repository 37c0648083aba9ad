/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to the urxe command: tables of what processes answer. Answers are tamed, and may lack
 * anything.
 */
#ifndef URXE_TOOL_TABLE_H
#define URXE_TOOL_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <json-c/json.h>

/* ---- table.c: urxe status; of answers to URXE_STATUS_ALL ---- */

/** tool_table_summary - a row for each device of each process in an array. */
void tool_table_summary(FILE *out, struct json_object *processes);
/** tool_table_process - one process: its devices with counters that are not 0, CQs, QPs. */
void tool_table_process(FILE *out, struct json_object *process);
/** tool_table_connections - a row for each id of each process in an array; of answers to
 * URXE_STATUS_CM, too. */
void tool_table_connections(FILE *out, struct json_object *processes);

/* ---- prometheus.c: urxe status --prometheus; of answers to URXE_STATUS_STAT ---- */

/** tool_prometheus - the counters of all devices of each process in an array, as Prometheus' text
 * format has them. */
void tool_prometheus(FILE *out, struct json_object *processes);

/* ---- rates.c: urxe stat; of answers to URXE_STATUS_STAT ---- */

/** What a device of a process did in a second. */
struct tool_rates {
	double rx_packets, tx_packets, rx_bytes, tx_bytes;
	double retransmits, naks, drops;
};

/**
 * tool_rates - between two answers about a device; false: there is no time between them, or they
 * are not of the same life of a process
 */
bool tool_rates(struct tool_rates *r, struct json_object *before, struct json_object *after);
/** tool_rates_title, tool_rates_row - a line of text. */
void tool_rates_title(FILE *out);
void tool_rates_row(FILE *out, int pid, const char *command, const char *device,
		    const struct tool_rates *r);
/** tool_rates_json - the same as an object. */
struct json_object *tool_rates_json(int pid, const char *command, const char *device,
				    const struct tool_rates *r);

/* ---- rows.c: of all devices of all processes ---- */

/** A row; texts are as long as the answers that it was made of. */
struct tool_row {
	int pid;
	const char *command, *device;
	struct tool_rates rates;
};

/** tool_rows - those that are in both arrays of answers; *@rows is to be freed. Returns how many.
 */
size_t tool_rows(struct json_object *before, struct json_object *now, struct tool_row **rows);
/** tool_rows_print - as a line of JSON; 0, or 1 when nobody reads. */
int tool_rows_print(const struct tool_row *rows, size_t n);

/** Columns by which rows are sorted. */
enum tool_row_column {
	TOOL_ROW_PID,
	TOOL_ROW_COMMAND,
	TOOL_ROW_DEVICE,
	TOOL_ROW_TX_BYTES = 6,
	TOOL_ROW_COLUMNS = 10
};
extern const char *const tool_row_columns[TOOL_ROW_COLUMNS];
/** tool_rows_sort - numbers from the largest on, words from A; @reverse: the other way. */
void tool_rows_sort(struct tool_row *rows, size_t n, unsigned column, bool reverse);

#endif
